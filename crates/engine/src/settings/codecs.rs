//! The choice of how blocks are compressed: by the user, level by level, or by the engine.

use crate::codec::{Codec, Compression};

/// Compression of all levels before the engine has measured anything: a cheap one.
const FIRST: Compression = Compression { codec: Codec::usual(), level: None, dictionary_bytes: 0 };

/// The compression of a family's levels.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Codecs {
    /// By hand: counted from level 0, whatever the shape of the tree; the last entry repeats for deeper levels.
    Fixed(Vec<Compression>),
    /// The engine chooses for each level from what it measures, and goes on choosing (docs/engine/compression.md).
    Auto,
}

impl Codecs {
    /// The compression of a level; for [`Codecs::Auto`] what it starts with. A table moves as it is between levels that agree in this, so
    /// under `Auto` no table is rewritten only to compress it in another way.
    pub fn at(&self, level: usize) -> Compression {
        match self {
            Codecs::Fixed(list) => list.get(level).or(list.last()).copied().unwrap_or_default(),
            Codecs::Auto => FIRST,
        }
    }

    /// The list that was written by hand.
    pub fn fixed(&self) -> Option<&[Compression]> {
        match self {
            Codecs::Fixed(list) => Some(list),
            Codecs::Auto => None,
        }
    }
}

impl From<Vec<Compression>> for Codecs {
    fn from(list: Vec<Compression>) -> Self {
        Codecs::Fixed(list)
    }
}

impl From<Codec> for Codecs {
    fn from(codec: Codec) -> Self {
        Compression::from(codec).into()
    }
}

impl From<Compression> for Codecs {
    fn from(one: Compression) -> Self {
        Codecs::Fixed(vec![one])
    }
}
