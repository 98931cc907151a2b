//! The locks of the write queue: parking_lot's, or shuttle's in the same shape when a test explores schedules (`--cfg shuttle`).

#[cfg(not(shuttle))]
pub(super) use parking_lot::{Condvar, Mutex};
#[cfg(not(shuttle))]
pub(super) use std::hint::spin_loop as pause;
#[cfg(not(shuttle))]
pub(super) use std::sync::atomic::AtomicU8;

#[cfg(shuttle)]
pub(super) use explored::{Condvar, Mutex};
#[cfg(shuttle)]
pub(super) use shuttle::{sync::atomic::AtomicU8, thread::yield_now as pause};

#[cfg(shuttle)]
mod explored {
    use std::ops::{Deref, DerefMut};

    #[derive(Default)]
    pub struct Mutex<T>(shuttle::sync::Mutex<T>);

    /// `None` only while it waits.
    pub struct Guard<'a, T>(Option<shuttle::sync::MutexGuard<'a, T>>);

    #[derive(Default)]
    pub struct Condvar(shuttle::sync::Condvar);

    impl<T> Mutex<T> {
        pub fn new(value: T) -> Self {
            Mutex(shuttle::sync::Mutex::new(value))
        }

        pub fn lock(&self) -> Guard<'_, T> {
            Guard(Some(self.0.lock().expect("a thread of this schedule panicked")))
        }
    }

    impl Condvar {
        pub fn new() -> Self {
            Self::default()
        }

        pub fn wait<T>(&self, guard: &mut Guard<'_, T>) {
            guard.0 = guard.0.take().map(|held| self.0.wait(held).expect("a thread of this schedule panicked"));
        }

        pub fn notify_one(&self) {
            self.0.notify_one();
        }
    }

    impl<T> Deref for Guard<'_, T> {
        type Target = T;

        fn deref(&self) -> &T {
            self.0.as_ref().expect("held")
        }
    }

    impl<T> DerefMut for Guard<'_, T> {
        fn deref_mut(&mut self) -> &mut T {
            self.0.as_mut().expect("held")
        }
    }
}
