//! Integration tests of the server. One program, because building and linking is the dearest part of such a test.

mod access;
mod always;
mod append;
mod attack;
mod chains;
mod common;
mod differential;
mod documentation;
mod edges;
mod events;
mod eviction;
mod lua;
mod migrate;
mod moments;
mod net;
mod operators;
mod order;
mod rdb;
mod replica;
mod replicas;
mod replication;
mod restore;
mod scripts;
mod tls;
mod tracking;
mod waits;
