//! Tiers in settings: which directory has which temperature, and how old data of a family may be for a temperature.

use super::size::{format_seconds, parse_seconds, shorten};
use sinter_storage::place::Place;
use sinter_storage::store::Temperature;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Places beside the database's own, by temperature: directories, or volumes on zoned drives as [`Place::of`] reads them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum TierPaths {
    /// The tiers that the database already has.
    #[default]
    Stored,
    /// Exactly these tiers: new ones are attached, those that are not named are detached.
    Only(BTreeMap<Temperature, PathBuf>),
}

const STORED: &str = "stored";
const NONE: &str = "none";

/// The place is a volume on a zoned drive.
fn is_zoned(path: &Path) -> bool {
    !matches!(Place::of(path), Ok(Place::Directory(_)))
}

/// Text cut into entries. Options of a zoned drive stand behind commas, too, and have names that no temperature has.
fn entries(text: &str) -> Vec<String> {
    let mut entries: Vec<String> = Vec::new();
    for part in text.split(',').map(str::trim) {
        let goes_on = |entry: &&mut String| {
            let place = entry.split_once('=').map_or("", |(_, place)| place.trim());
            is_zoned(Path::new(place)) && part.split_once('=').is_none_or(|(name, _)| known(name.trim()).is_err())
        };
        match entries.last_mut().filter(goes_on) {
            Some(entry) => entry.extend([",", part]),
            None => entries.push(part.into()),
        }
    }
    entries
}

impl TierPaths {
    /// The directories that are named.
    pub fn named(&self) -> impl Iterator<Item = (Temperature, &Path)> {
        let list = match self {
            TierPaths::Stored => None,
            TierPaths::Only(list) => Some(list),
        };
        list.into_iter().flatten().map(|(temperature, path)| (*temperature, path.as_path()))
    }

    /// `stored`, `none`, or entries `TEMPERATURE=PATH` with commas between them.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        match text.trim() {
            STORED => return Ok(TierPaths::Stored),
            NONE => return Ok(TierPaths::Only(BTreeMap::new())),
            _ => {}
        }
        let mut list = BTreeMap::new();
        for entry in &entries(text) {
            let (name, path) = entry
                .split_once('=')
                .map(|(name, path)| (name.trim(), path.trim()))
                .filter(|(_, path)| !path.is_empty())
                .ok_or_else(|| format!("`{}` is not TEMPERATURE=DIRECTORY, as in cold=/mnt/slow", shorten(entry)))?;
            Place::of(Path::new(path)).map_err(|what| format!("`{}`: {what}", shorten(entry)))?;
            if list.insert(known(name)?, PathBuf::from(path)).is_some() {
                return Err(format!("{name} has two directories"));
            }
        }
        Ok(TierPaths::Only(list))
    }

    pub(super) fn text(&self) -> String {
        match self {
            TierPaths::Stored => STORED.into(),
            TierPaths::Only(list) if list.is_empty() => NONE.into(),
            TierPaths::Only(list) => {
                let entry = |(temperature, path): (&Temperature, &PathBuf)| format!("{}={}", temperature.name(), path.display());
                list.iter().map(entry).collect::<Vec<_>>().join(", ")
            }
        }
    }

    /// A path that the text form cannot hold.
    pub(super) fn complaint(&self) -> Option<String> {
        let unfit = |path: &&Path| match (path.to_str(), Place::of(path)) {
            (Some(text), Ok(place)) => {
                let may_have_commas = matches!(place, Place::Zoned(_));
                text.is_empty() || text.trim() != text || text.chars().any(|c| (c == ',' && !may_have_commas) || c.is_control())
            }
            _ => true,
        };
        let path = self.named().map(|(_, path)| path).find(unfit)?;
        let shown = shorten(&path.to_string_lossy());
        Some(format!("tiers: `{shown}` cannot be stored: paths are UTF-8, without commas, control characters and blanks at their ends"))
    }
}

/// A temperature that data may be given.
fn known(name: &str) -> Result<Temperature, String> {
    let all = &Temperature::ALL[1..];
    all.iter().copied().find(|temperature| temperature.name() == name).ok_or_else(|| {
        let names = all.iter().map(|temperature| temperature.name()).collect::<Vec<_>>().join(", ");
        format!("`{}` is not a temperature (known: {names})", shorten(name))
    })
}

/// Temperature of data by its age: up to an age a temperature, then the next colder one.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TemperatureAges {
    /// Seconds up to which a temperature holds, both rising.
    steps: Vec<(u64, Temperature)>,
    /// Temperature of everything older; `None`: ages give no temperature.
    last: Option<Temperature>,
}

const OFF: &str = "off";

impl TemperatureAges {
    /// The temperature of data whose newest write was at `newest` (unix seconds, 0 unknown). `None` if ages say nothing, or if nothing
    /// is known of its age and that matters.
    pub(crate) fn at(&self, newest: u64, now: u64) -> Option<Temperature> {
        let last = self.last?;
        if self.steps.is_empty() {
            return Some(last);
        }
        if newest == 0 {
            return None;
        }
        // A clock that was put back makes data young, never old.
        let age = now.saturating_sub(newest);
        Some(self.steps.iter().find(|(up_to, _)| age < *up_to).map_or(last, |(_, temperature)| *temperature))
    }

    /// The largest age that matters, seconds; 0: none does.
    pub(crate) fn oldest(&self) -> u64 {
        self.steps.last().map_or(0, |(age, _)| *age)
    }

    /// `off`, or entries `TEMPERATURE AGE` with commas between them, the last without an age.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        if text.trim() == OFF {
            return Ok(TemperatureAges::default());
        }
        let mut ages = TemperatureAges::default();
        for entry in text.split(',').map(str::trim) {
            if let Some(last) = ages.last {
                return Err(format!("{} has no age, so nothing can come behind it", last.name()));
            }
            let (name, age) = entry.split_once(char::is_whitespace).map_or((entry, None), |(name, age)| (name, Some(age.trim())));
            let temperature = known(name)?;
            if ages.steps.last().is_some_and(|(_, before)| *before >= temperature) {
                return Err(format!("{name} is not colder than what comes before it"));
            }
            match age {
                None => ages.last = Some(temperature),
                Some(age) => {
                    let seconds = parse_seconds(age)?;
                    if seconds <= ages.steps.last().map_or(0, |(before, _)| *before) {
                        return Err(format!("the age of {name} is not above the one before it"));
                    }
                    ages.steps.push((seconds, temperature));
                }
            }
        }
        match ages.last {
            Some(_) => Ok(ages),
            None => Err("the last temperature has no age: it is that of everything older".into()),
        }
    }

    pub(super) fn text(&self) -> String {
        let Some(last) = self.last else { return OFF.into() };
        let step = |(seconds, temperature): &(u64, Temperature)| format!("{} {}", temperature.name(), format_seconds(*seconds));
        self.steps.iter().map(step).chain([last.name().to_owned()]).collect::<Vec<_>>().join(", ")
    }
}

impl std::str::FromStr for TemperatureAges {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        TemperatureAges::parse(text)
    }
}

impl std::str::FromStr for TierPaths {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        TierPaths::parse(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_read_and_printed() {
        for text in ["off", "cold", "hot 1h, cold", "hot 1h, warm 7d, cold", "warm 90, cool 2m, cold 30d, ice"] {
            let ages: TemperatureAges = text.parse().unwrap();
            assert_eq!(ages.text(), text);
        }
        assert_eq!("hot 60m,warm 1w , ice".parse::<TemperatureAges>().unwrap().text(), "hot 1h, warm 7d, ice");
        for (text, part) in [
            ("", "not a temperature"),
            ("tepid 1h, cold", "`tepid` is not a temperature"),
            ("unknown", "not a temperature"),
            ("hot 1h", "the last temperature has no age"),
            ("hot, cold", "nothing can come behind it"),
            ("hot 1h, cold,", "nothing can come behind it"),
            ("cold 1h, hot", "hot is not colder"),
            ("hot 1h, hot", "hot is not colder"),
            ("hot 1h, warm 1h, cold", "not above"),
            ("hot 0, cold", "not above"),
            ("hot soon, cold", "not a duration"),
        ] {
            let complaint = text.parse::<TemperatureAges>().unwrap_err();
            assert!(complaint.contains(part), "{text}: {complaint}");
        }
    }

    #[test]
    fn a_temperature_holds_up_to_its_age() {
        use Temperature::{Cold, Hot, Warm};
        let ages: TemperatureAges = "hot 1h, warm 2h, cold".parse().unwrap();
        let now = 1_000_000;
        let at = |age: u64| ages.at(now - age, now);
        assert_eq!([0, 3599, 3600, 7199, 7200, 999_999].map(at), [Hot, Hot, Warm, Warm, Cold, Cold].map(Some));
        assert_eq!(ages.at(now + 50, now), Some(Hot), "from the future");
        assert_eq!(ages.at(0, now), None, "of unknown age");
        let all: TemperatureAges = "ice".parse().unwrap();
        assert_eq!((all.at(0, now), all.at(now, now)), (Some(Temperature::Ice), Some(Temperature::Ice)));
        assert_eq!(TemperatureAges::default().at(now, now), None);
    }

    #[test]
    fn directories_are_read_and_printed() {
        for text in [
            "stored",
            "none",
            "cold=/mnt/slow",
            "cold=./zoned:a",
            "cold=zoned:/dev/nvme0n2, ice=tape",
            "cold=zoned:z.img,allocation=sla,reserve=5, ice=/t",
            "hot=/a b/c=d, cold=/mnt/slow, ice=tape",
        ] {
            let tiers: TierPaths = text.parse().unwrap();
            assert_eq!((tiers.text().as_str(), tiers.complaint()), (text, None));
        }
        for (text, part) in [
            ("", "not TEMPERATURE=DIRECTORY"),
            ("cold", "not TEMPERATURE=DIRECTORY"),
            ("cold=", "not TEMPERATURE=DIRECTORY"),
            ("cold=/a,", "not TEMPERATURE=DIRECTORY"),
            ("unknown=/a", "not a temperature"),
            ("cold=/a, cold=/b", "two directories"),
            ("cold=/a, ice=zoned:", "no drive is named"),
            ("cold=zoned:a,allocation=best", "must be one of zenfs, "),
            ("cold=zoned:a, tepid=/b", "there is no option \"tepid\""),
            ("cold=zoned:a,", "is no option"),
        ] {
            let complaint = text.parse::<TierPaths>().unwrap_err();
            assert!(complaint.contains(part), "{text}: {complaint}");
        }
        for path in ["/a,b", " /a", "/a\n", "", "zoned:", "zoned:a,b"] {
            let tiers = TierPaths::Only(BTreeMap::from([(Temperature::Cold, PathBuf::from(path))]));
            assert!(tiers.complaint().is_some(), "{path:?}");
        }
    }
}
