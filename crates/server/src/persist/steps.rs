//! Walks over elements that write each of them: an error of the output ends the walk.

use super::error::SaveError;
use crate::keyspace;
use std::io;
use std::ops::ControlFlow;

/// Carries an error out of a walk, and counts the steps of the walk.
#[derive(Default)]
pub struct Steps {
    count: u64,
    failed: Option<io::Error>,
}

impl Steps {
    pub fn step(&mut self, result: io::Result<()>) -> ControlFlow<()> {
        match result {
            Ok(()) => {
                self.count += 1;
                ControlFlow::Continue(())
            }
            Err(error) => {
                self.failed = Some(error);
                ControlFlow::Break(())
            }
        }
    }

    /// Ends the walk: fails if an error was carried, or if the number of steps is not the promised one.
    pub fn end(self, promised: u64) -> Result<(), SaveError> {
        match self.failed {
            Some(error) => Err(error.into()),
            None if self.count != promised => Err(keyspace::Error::Damaged("its elements are not as many as its count says").into()),
            None => Ok(()),
        }
    }
}
