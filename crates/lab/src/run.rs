//! One run as data: [`RunSpec`] is its complete description, [`RunRecord`] its complete result. A study is a list of specs; a runner
//! executes one spec in a process of its own (so that memory and CPU are the run's alone, and engines do not meet) and prints its record as
//! JSON; a report is made from records alone.

mod named;
mod options;
mod record;
mod served;
mod spec;
mod template;
mod validate;
mod verdict;

pub use named::{NAMED, named};
pub use options::is_table_option;
pub(crate) use options::without_lines;
pub use record::{BackgroundWriter, Confinement, Killed, PROCESS, Phase as PhaseRecord, RECORD_VERSION, RunRecord, Second, Source};
pub(crate) use served::template;
pub use served::{REDIS, SERVERS};
pub use spec::{
    Calls, Distribution, EngineSpec, FamilySpec, InPlace, Limits, Medium, MediumModel, Mix, Order, Pace, Phase, PhaseKind, RunSpec,
    SPEC_VERSION, ServerSpec, TierSpec, ValueSize, Workload, Writer, ZonesSpec,
};
pub(crate) use template::{Argument, Command, Effect, Template, member};
pub use validate::{OPERATIONS, ZONE_BLOCK};
pub use verdict::{Answer, Verdict};

#[cfg(test)]
mod tests;
