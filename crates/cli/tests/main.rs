//! Integration tests of the command `sinter`, and tests of the project's rules. They are one program, because building and linking is the
//! most expensive part of such a test.

mod background;
mod backup;
mod beside;
mod check;
mod command;
mod descriptors;
mod documents;
mod idle;
mod kill;
mod kill_import;
mod kill_serve;
mod layers;
mod links;
mod report;
mod run;
mod serve;
mod source;
mod stock;
mod study;
mod tidy;
mod tiers;
mod transfer;
mod zones;
