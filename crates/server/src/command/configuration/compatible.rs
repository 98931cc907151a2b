//! The version of Redis that the server says it is.

/// The version of Redis that clients are told (`compatible`). All commands exist whatever it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Compatible {
    /// Redis 7.0, whose replies the server has.
    #[default]
    Seven,
    /// Redis 8, whose new commands clients send only if the server says that it has them.
    Eight,
}

impl Compatible {
    const ALL: [(Compatible, &'static str, &'static str); 2] = [(Compatible::Seven, "7.0", "7.0.15"), (Compatible::Eight, "8", "8.4.0")];

    fn entry(self) -> (&'static str, &'static str) {
        Self::ALL.iter().find(|(compatible, ..)| *compatible == self).map_or(("", ""), |(_, name, version)| (name, version))
    }

    /// The name in the configuration.
    pub fn name(self) -> &'static str {
        self.entry().0
    }

    /// The version that `INFO`, `HELLO` and `LOLWUT` show.
    pub fn version(self) -> &'static str {
        self.entry().1
    }

    /// Reads a name of the configuration.
    pub fn parse(name: &str) -> Option<Compatible> {
        Self::ALL.iter().find(|(_, known, _)| *known == name).map(|(compatible, ..)| *compatible)
    }
}
