//! Three rings around the whole engine, over a store in memory that can crash, fail and rot:
//! `crash` cuts the power at every mutating call, `faults` makes every call fail once, `damage` flips bits and swaps files. `tiers` lets
//! the stores of tiers fail, fill up and get lost.
//! They share workloads, a model of their history, and the comparison of a database with a moment of that history. One binary, because
//! linking is the dearest part of an integration test.

mod check;
mod crash;
mod damage;
mod faults;
mod machine;
mod model;
#[path = "../model_support/random.rs"]
mod random;
mod reshaped;
mod runner;
mod tiers;
mod times;
mod workloads;
mod zones;
