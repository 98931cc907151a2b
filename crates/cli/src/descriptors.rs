//! The limit of open files: the library respects the soft limit, the command raises it.

use nix::Result;
use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Raises the soft limit of open files to the hard one: the default, often 1,024, is enough for few tables and few clients. Returns both
/// limits, or `None` if they are equal.
pub fn raise() -> Option<Result<(u64, u64)>> {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).ok()?;
    (soft < hard).then(|| setrlimit(Resource::RLIMIT_NOFILE, hard, hard).map(|()| (soft, hard)))
}
