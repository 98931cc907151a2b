//! The version of Redis that the server says it is.

/// Version of Redis that the server names (`compatible`). The server has all commands with either version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Compatible {
    /// Redis 7.0, whose replies the server follows.
    #[default]
    Seven,
    /// Redis 8, for clients that send newer commands only to a server that names it.
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

    /// The version that `INFO`, `HELLO`, `LOLWUT` and scripts show.
    pub fn version(self) -> &'static str {
        self.entry().1
    }

    /// Parses the name in the configuration.
    pub fn parse(name: &str) -> Option<Compatible> {
        Self::ALL.iter().find(|(_, known, _)| *known == name).map(|(compatible, ..)| *compatible)
    }
}
