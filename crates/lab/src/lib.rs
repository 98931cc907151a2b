//! The laboratory of SinterDB, in reading order: [`workload`] makes keys and values as pure streams of a seed, [`target`] is what they
//! are run against, [`mod@bench`] drives db_bench's workloads over a target, and [`result`] is what comes out: plain data, and its text.
//! [`run`] is one run as data, [`drive`] does it, [`study`] makes many of them with a question, [`statistics`] is what may be said of
//! repeats, [`report`] the page, [`advise`] predicts what a study would find, and [`churn`] what files on zones would cost.

pub mod advise;
pub mod bench;
pub mod churn;
pub mod drive;
pub mod report;
pub mod result;
pub mod run;
pub mod statistics;
pub mod study;
pub mod target;
pub mod workload;
