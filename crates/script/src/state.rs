//! State of a machine outside of Lua: memory in use and its bound, the host of the running script, buffers of native functions.

use crate::host::{Host, Protocol};
use crate::library::Registered;
use mlua_sys as ffi;
use std::alloc::{Layout, alloc, dealloc, realloc};
use std::cell::{Cell, UnsafeCell};
use std::ffi::{c_int, c_void};

/// Instructions between two questions to the host whether the script goes on.
pub(crate) const INSTRUCTIONS: c_int = 100_000;
/// Alignment of all memory that Lua gets.
const ALIGNMENT: usize = 16;
/// Pause and speed of Lua's collector in a new machine, percent (`LUAI_GCPAUSE`, `LUAI_GCMUL`).
const PAUSE: c_int = 200;
const SPEED: c_int = 200;
/// Speed of the collector at which it does not stop before the end of a cycle.
const WHOLE_CYCLES: c_int = 0;
/// Capacity that a buffer of native functions keeps between two scripts, bytes.
const BUFFER_KEPT: usize = 64 << 10;
/// First state of the random numbers of a machine, as in Redis. A script goes on with the numbers where the last one has stopped.
const RANDOM_START: u64 = 0x1234_abcd_330e;

/// Text of the error of a killed script, behind its code.
pub(crate) const KILLED: &str = "Script killed by user with SCRIPT KILL...";

/// A buffer that native functions share. It belongs to the state, so that no memory leaks when an error leaves a frame by `longjmp`.
pub(crate) struct Buffer<T>(UnsafeCell<Vec<T>>);

impl<T> Default for Buffer<T> {
    fn default() -> Self {
        Buffer(UnsafeCell::new(Vec::new()))
    }
}

impl<T> Buffer<T> {
    /// The buffer's contents. A native function must not hold the reference while it calls Lua code; it calls `get` again.
    #[expect(clippy::mut_from_ref, reason = "one thread; a reference ends before the next begins, by the rule above")]
    pub(crate) fn get(&self) -> &mut Vec<T> {
        // SAFETY: a machine belongs to one thread, and by the rule of the method no other reference is alive.
        unsafe { &mut *self.0.get() }
    }
}

/// How a script was started, which decides what it sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Nothing runs.
    Idle,
    /// `EVAL` and its relatives.
    Script,
    /// `FCALL` and its relatives.
    Function,
    /// `FUNCTION LOAD`.
    Loading,
}

/// A host without its lifetime: set when a script starts and taken back when it ends.
type RawHost = *mut (dyn Host + 'static);

/// State of a machine outside Lua.
pub(crate) struct State {
    used: Cell<usize>,
    memory_max: Cell<usize>,
    /// A thread of the machine, by which the collector is set; null until there is one.
    any_thread: Cell<*mut ffi::lua_State>,
    /// Bytes in use at which the collector is told to do a whole cycle.
    mark: Cell<usize>,
    /// Whether the collector's settings may differ from those of a new machine.
    is_tuned: Cell<bool>,
    /// Whether memory was refused since the Lua state was made.
    refused: Cell<bool>,
    host: Cell<Option<RawHost>>,
    pub(crate) mode: Cell<Mode>,
    /// Whether the script is killed, and has to end whatever it catches.
    pub(crate) killed: Cell<bool>,
    /// Protocol of replies inside the script.
    pub(crate) protocol: Cell<Protocol>,
    pub(crate) random: Cell<u64>,
    /// Protected tables by address, each with the number in the registry of the table behind it.
    pub(crate) protected: Buffer<(*const c_void, c_int)>,
    /// Text under construction, used as a stack: each function truncates it to the length that it found.
    pub(crate) text: Buffer<u8>,
    /// Reply of the host to the last command.
    pub(crate) reply: Buffer<u8>,
    /// Arguments of a command, borrowed from Lua's stack.
    pub(crate) arguments: Buffer<&'static [u8]>,
    /// Functions that the loading library has registered.
    pub(crate) registered: Buffer<Registered>,
    /// Steps of native loops since the host was last asked.
    pub(crate) steps: Cell<u32>,
}

impl State {
    /// State without a script, and with a bound for Lua's memory in bytes.
    pub(crate) fn new(memory_max: usize) -> State {
        State {
            used: Cell::new(0),
            memory_max: Cell::new(memory_max),
            any_thread: Cell::new(std::ptr::null_mut()),
            mark: Cell::new(memory_max / 4),
            is_tuned: Cell::new(false),
            refused: Cell::new(false),
            host: Cell::new(None),
            mode: Cell::new(Mode::Idle),
            killed: Cell::new(false),
            protocol: Cell::new(Protocol::Resp2),
            random: Cell::new(RANDOM_START),
            protected: Buffer::default(),
            text: Buffer::default(),
            reply: Buffer::default(),
            arguments: Buffer::default(),
            registered: Buffer::default(),
            steps: Cell::new(0),
        }
    }

    /// Bytes that Lua has allocated.
    pub(crate) fn used(&self) -> usize {
        self.used.get()
    }

    /// Bytes that Lua and text under construction may take.
    pub(crate) fn memory_max(&self) -> usize {
        self.memory_max.get()
    }

    /// Takes a thread of the machine, by which the allocator sets the collector. The thread lives as long as the machine.
    pub(crate) fn belongs_to(&self, lua: *mut ffi::lua_State) {
        self.any_thread.set(lua);
    }

    /// Bytes in use at which the collector is told to run next, where `used` are the fewest bytes in use since it ran last. Left to itself,
    /// Lua's collector does little work for a large block and waits until memory has doubled, so garbage alone could fill the memory.
    fn next_mark(&self, used: usize) -> usize {
        let bound = self.memory_max.get();
        (bound / 4).max(used.saturating_add(bound / 8))
    }

    /// Has the collector do a whole cycle at the next moment at which Lua lets it run. The allocator may call this: nothing but numbers
    /// of the collector is set.
    #[cold]
    fn press(&self) {
        self.mark.set(self.next_mark(self.used.get()));
        self.is_tuned.set(true);
        self.set_collector(WHOLE_CYCLES);
    }

    /// Sets the speed of the collector, with the usual pause between its cycles, and starts it.
    fn set_collector(&self, speed: c_int) {
        let lua = self.any_thread.get();
        if lua.is_null() {
            return;
        }
        // SAFETY: the thread lives as long as the machine; these calls set numbers, and neither allocate nor run the collector.
        unsafe {
            ffi::lua_gc(lua, ffi::LUA_GCSETPAUSE, PAUSE);
            ffi::lua_gc(lua, ffi::LUA_GCSETSTEPMUL, speed);
            ffi::lua_gc(lua, ffi::LUA_GCRESTART, 0);
        }
    }

    /// Notes that a script may have changed the collector's settings.
    pub(crate) fn tune(&self) {
        self.is_tuned.set(true);
    }

    /// Readies the state for a script: the collector has its usual settings, whatever an earlier script has done.
    pub(crate) fn begin(&self) {
        if self.is_tuned.replace(false) {
            self.mark.set(self.next_mark(self.used.get()));
            self.set_collector(SPEED);
        }
        self.empty_buffers();
    }

    /// Empties the buffers of native functions, and gives most of their memory back.
    pub(crate) fn empty_buffers(&self) {
        for buffer in [&self.text, &self.reply] {
            buffer.get().clear();
            buffer.get().shrink_to(BUFFER_KEPT);
        }
        self.arguments.get().clear();
        self.arguments.get().shrink_to(BUFFER_KEPT / size_of::<&[u8]>());
    }

    /// Notes that memory was refused.
    pub(crate) fn refuse(&self) {
        self.refused.set(true);
    }

    /// Whether memory was refused since the Lua state was made.
    pub(crate) fn refused(&self) -> bool {
        self.refused.get()
    }

    /// Host of the running script.
    pub(crate) fn host<'a>(&self) -> Option<&'a mut dyn Host> {
        // SAFETY: `with_host` borrows the host exclusively as long as the pointer is here; native functions use it for one call each, and a
        // host has no access to the machine that calls it.
        self.host.get().map(|host| unsafe { &mut *host })
    }

    /// Runs something with a host.
    pub(crate) fn with_host<R>(&self, host: &mut dyn Host, run: impl FnOnce() -> R) -> R {
        struct Reset<'a>(&'a State);
        impl Drop for Reset<'_> {
            fn drop(&mut self) {
                self.0.host.set(None);
                self.0.mode.set(Mode::Idle);
                self.0.killed.set(false);
            }
        }
        let _reset = Reset(self);
        // SAFETY: only the lifetime changes; `Reset` takes the pointer away before the borrow ends, in a panic as well.
        let host: RawHost = unsafe { std::mem::transmute::<*mut (dyn Host + '_), RawHost>(host) };
        self.host.set(Some(host));
        run()
    }
}

/// Lua's allocator: memory of the process, counted and bounded.
///
/// # Safety
///
/// `state` points to a live [`State`]; `block` is null, or this function returned it for `old` bytes.
pub(crate) unsafe extern "C" fn allocate(state: *mut c_void, block: *mut c_void, old: usize, new: usize) -> *mut c_void {
    // SAFETY: by the contract.
    let state = unsafe { &*state.cast::<State>() };
    let old = if block.is_null() { 0 } else { old };
    let used = state.used.get() - old;
    let layout = |bytes| Layout::from_size_align(bytes, ALIGNMENT);
    if new == 0 {
        if let (false, Ok(layout)) = (old == 0, layout(old)) {
            // SAFETY: the block has that layout.
            unsafe { dealloc(block.cast(), layout) };
        }
        state.used.set(used);
        state.mark.set(state.mark.get().min(state.next_mark(used)));
        return std::ptr::null_mut();
    }
    let (Ok(was), Ok(wanted)) = (layout(old), layout(new)) else { return std::ptr::null_mut() };
    // Lua relies on shrinking never to fail.
    if new > old && used.saturating_add(new) > state.memory_max.get() {
        state.refused.set(true);
        return std::ptr::null_mut();
    }
    // SAFETY: sizes are not 0, and the block has the layout that it came with.
    let block = unsafe { if old == 0 { alloc(wanted) } else { realloc(block.cast(), was, new) } };
    if block.is_null() {
        state.refused.set(true);
    } else {
        state.used.set(used + new);
        if used + new > state.mark.get() {
            state.press();
        }
    }
    block.cast()
}
