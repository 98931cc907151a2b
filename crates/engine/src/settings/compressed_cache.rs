//! The division of the block cache between uncompressed and compressed blocks.

use super::size::shorten;

/// The part of the cache that holds compressed blocks.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
#[non_exhaustive]
pub enum CompressedCache {
    /// No compressed blocks.
    #[default]
    Off,
    /// The share that saves time, by measurements while the database works.
    Auto,
    /// A fixed share of the cache's bytes, above 0 and up to [`CompressedCache::MOST`].
    Share(f64),
}

impl CompressedCache {
    /// The largest share: the rest holds indexes, filters and the blocks in use.
    pub const MOST: f64 = 0.9;

    /// The share at which a cache starts.
    pub(crate) fn start(self) -> f64 {
        match self {
            CompressedCache::Off | CompressedCache::Auto => 0.0,
            CompressedCache::Share(share) => share.clamp(0.0, Self::MOST),
        }
    }

    pub(super) fn is_possible(self) -> bool {
        !matches!(self, CompressedCache::Share(share) if !(share > 0.0 && share <= Self::MOST))
    }

    pub(super) fn parse(text: &str) -> Result<Self, String> {
        match text.trim() {
            "off" => Ok(CompressedCache::Off),
            "auto" => Ok(CompressedCache::Auto),
            share => match share.parse() {
                Ok(0.0) => Ok(CompressedCache::Off),
                Ok(share) => Ok(CompressedCache::Share(share)),
                Err(_) => Err(format!("`{}` is neither auto nor off nor a share as in 0.25", shorten(text))),
            },
        }
    }

    pub(super) fn text(self) -> String {
        match self {
            CompressedCache::Off => "off".into(),
            CompressedCache::Auto => "auto".into(),
            CompressedCache::Share(share) => format!("{share:?}"),
        }
    }
}
