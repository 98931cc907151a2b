//! TEMP
use super::*;
pub struct ManualRange {
    pub from: Option<Vec<u8>>,
    pub to: Option<Vec<u8>>,
}
pub fn manual(_: &Version, _: &PickEnv<'_>, _: &ManualRange, _: u64) -> Choice {
    Choice::Nothing
}
