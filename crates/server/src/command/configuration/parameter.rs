//! One directive that has an effect.

use super::{Configuration, Why};

/// A directive that has an effect.
#[derive(Debug, Clone, Copy)]
pub struct Parameter {
    /// The name, in lower case.
    pub name: &'static str,
    /// A second name; empty: none.
    pub also: &'static str,
    /// Whether it may change while the server runs.
    pub changes: bool,
    /// Description of the effect, for people.
    pub about: &'static str,
    /// Its value as text.
    pub(super) get: fn(&Configuration) -> String,
    /// Sets it.
    pub(super) set: fn(&mut Configuration, &str) -> Result<(), Why>,
}

/// A directive with one name.
pub(super) const fn parameter(
    name: &'static str,
    changes: bool,
    about: &'static str,
    get: fn(&Configuration) -> String,
    set: fn(&mut Configuration, &str) -> Result<(), Why>,
) -> Parameter {
    Parameter { name, also: "", changes, about, get, set }
}

impl Parameter {
    /// The names of the directive.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        [self.name, self.also].into_iter().filter(|name| !name.is_empty())
    }

    /// The current value.
    pub fn value(&self, configuration: &Configuration) -> String {
        (self.get)(configuration)
    }

    /// Adds a second name.
    pub(super) const fn also(mut self, name: &'static str) -> Self {
        self.also = name;
        self
    }
}
