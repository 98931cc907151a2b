//! The command. STUB
fn main() {}
