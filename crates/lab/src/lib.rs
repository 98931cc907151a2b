//! The laboratory of SinterDB, in reading order: [`workload`] makes keys and values as pure streams of a seed, [`system`] has the traits of
//! stores under measurement, [`result`] has the figures of results, [`run`] is one run as data, [`drive`] executes it, [`mod@bench`] makes
//! runs of db_bench's workloads and prints their records, [`study`] makes many runs to answer a question, [`statistics`] evaluates
//! repeats, [`mod@published`] has the figures of the originals, [`report`] makes the page, [`advise`] predicts the results of a study, and
//! [`churn`] simulates files on zones.

pub mod advise;
pub mod bench;
pub mod churn;
pub mod drive;
pub mod published;
pub mod report;
pub mod result;
pub mod run;
pub mod statistics;
pub mod study;
pub mod system;
pub mod workload;
