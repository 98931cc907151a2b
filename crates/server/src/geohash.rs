//! Positions on earth as numbers that order well: geohashes of 52 bits, the scores of sorted sets of positions.
//!
//! Longitude and latitude, each a fraction of its range in 26 bits, alternate in the bits of a number, the longitude first. Positions that
//! have the upper bits of their numbers in common are in the same cell of a grid; so a cell is a range of scores, and what is near is in
//! the cell of the middle or in one of the eight around it, if cells are large enough. Distances are those on a sphere (haversine).
//!
//! A score comes from a user, who may have given it to a member without a position. It is some position all the same.

use crate::number::to_integer;
use std::f64::consts::PI;

/// Bits of a coordinate in a score.
const STEPS: u32 = 26;
/// A range of degrees.
type Degrees = (f64, f64);
const LONGITUDES: Degrees = (-180.0, 180.0);
/// Latitudes that the Mercator projection of web maps covers.
const LATITUDES: Degrees = (-85.05112878, 85.05112878);
/// Latitudes for a geohash in text form, which other programs read.
const ALL_LATITUDES: Degrees = (-90.0, 90.0);

/// Meters.
const EARTH_RADIUS: f64 = 6372797.560856;
/// Half of the way around the earth on the projection, meters.
const HALF_WAY: f64 = 20037726.37;

/// The digits of a geohash as text.
const DIGITS: &[u8; 32] = b"0123456789bcdefghjkmnpqrstuvwxyz";
/// Digits of a geohash as text.
const TEXT: usize = 11;

fn radians(degrees: f64) -> f64 {
    degrees * (PI / 180.0)
}

fn degrees(radians: f64) -> f64 {
    radians / (PI / 180.0)
}

/// A position, in degrees.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Position {
    /// East of Greenwich.
    pub longitude: f64,
    /// North of the equator.
    pub latitude: f64,
}

/// Puts a zero before each bit.
fn spread(number: u32) -> u64 {
    [
        (16, 0x0000_ffff_0000_ffff),
        (8, 0x00ff_00ff_00ff_00ff),
        (4, 0x0f0f_0f0f_0f0f_0f0f),
        (2, 0x3333_3333_3333_3333),
        (1, 0x5555_5555_5555_5555),
    ]
    .iter()
    .fold(u64::from(number), |bits, (shift, mask)| (bits | bits << shift) & mask)
}

/// Every other bit, from the lowest on.
fn gather(bits: u64) -> u32 {
    let masks = [
        (0, 0x5555_5555_5555_5555),
        (1, 0x3333_3333_3333_3333),
        (2, 0x0f0f_0f0f_0f0f_0f0f),
        (4, 0x00ff_00ff_00ff_00ff),
        (8, 0x0000_ffff_0000_ffff),
    ];
    let gathered = masks.iter().fold(bits, |bits: u64, (shift, mask)| (bits | bits >> shift) & mask);
    // The upper half is what was pushed over the lower one.
    (gathered | gathered >> 16) as u32
}

/// A cell of the grid that has 2^steps columns and rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Cell {
    column: u32,
    row: u32,
    steps: u32,
}

impl Cell {
    /// The cell that has a position. On the eastern and the northern border that is one column or row beyond the last.
    fn of(position: Position, steps: u32, latitudes: Degrees) -> Cell {
        let part = |degrees: f64, (min, max): Degrees| ((degrees - min) / (max - min) * f64::from(1 << steps)) as u32;
        Cell { column: part(position.longitude, LONGITUDES), row: part(position.latitude, latitudes), steps }
    }

    fn bits(self) -> u64 {
        spread(self.row) | spread(self.column) << 1
    }

    /// The scores of positions in the cell, from the first one up to another (excluded).
    fn scores(self) -> (f64, f64) {
        let unused = 2 * (STEPS - self.steps);
        ((self.bits() << unused) as f64, ((self.bits() + 1) << unused) as f64)
    }

    fn side(number: u32, steps: u32, (min, max): Degrees) -> Degrees {
        let edge = |number: u32| min + f64::from(number) / f64::from(1 << steps) * (max - min);
        (edge(number), edge(number.wrapping_add(1)))
    }

    fn longitudes(self) -> Degrees {
        Self::side(self.column, self.steps, LONGITUDES)
    }

    fn latitudes(self) -> Degrees {
        Self::side(self.row, self.steps, LATITUDES)
    }

    /// The cell so many columns to the east and rows to the north; the grid wraps around.
    fn beside(self, east: i32, north: i32) -> Cell {
        let last = (1 << self.steps) - 1;
        let moved = |number: u32, by: i32| if by == 0 { number } else { number.wrapping_add_signed(by) & last };
        Cell { column: moved(self.column, east), row: moved(self.row, north), ..self }
    }
}

impl Position {
    /// A position that has a score; `None`: it is too near to a pole, or on no map.
    pub fn new(longitude: f64, latitude: f64) -> Option<Position> {
        let is_in = |degrees: f64, (min, max): Degrees| (min..=max).contains(&degrees);
        (is_in(longitude, LONGITUDES) && is_in(latitude, LATITUDES)).then_some(Position { longitude, latitude })
    }

    /// The score of the position's cell in the finest grid, which is exact.
    pub fn score(self) -> f64 {
        Cell::of(self, STEPS, LATITUDES).bits() as f64
    }

    /// The middle of the cell that has a score.
    pub fn from_score(score: f64) -> Position {
        // Numbers of more than 63 bits go around, as processors have it.
        let limit = 2f64.powi(63);
        let bits = if score < limit { to_integer(score).cast_unsigned() } else { to_integer(score - limit).cast_unsigned() ^ 1 << 63 };
        let cell = Cell { column: gather(bits >> 1), row: gather(bits), steps: STEPS };
        let middle = |(from, to): Degrees, (min, max): Degrees| ((from + to) / 2.0).clamp(min, max);
        Position { longitude: middle(cell.longitudes(), LONGITUDES), latitude: middle(cell.latitudes(), LATITUDES) }
    }

    /// The standard geohash text, which other programs read.
    pub fn text(self) -> [u8; TEXT] {
        let bits = Cell::of(self, STEPS, ALL_LATITUDES).bits();
        let mut text = [b'0'; TEXT];
        // 52 bits make ten digits; the rest of the last one is zero.
        for (at, digit) in text.iter_mut().take(TEXT - 1).enumerate() {
            let value = bits >> (52 - 5 * (at + 1)) & 31;
            *digit = DIGITS.get(value as usize).copied().unwrap_or(b'0');
        }
        text
    }

    /// Meters along a meridian.
    fn distance_north(self, other: Position) -> f64 {
        EARTH_RADIUS * (radians(other.latitude) - radians(self.latitude)).abs()
    }

    /// Meters between two positions.
    pub fn distance(self, other: Position) -> f64 {
        let across = ((radians(other.longitude) - radians(self.longitude)) / 2.0).sin();
        if across == 0.0 {
            return self.distance_north(other);
        }
        let (from, to) = (radians(self.latitude), radians(other.latitude));
        let along = ((to - from) / 2.0).sin();
        let haversine = along * along + from.cos() * to.cos() * across * across;
        2.0 * EARTH_RADIUS * haversine.sqrt().asin()
    }
}

/// Shape of the area of a search around its middle, in a unit of length.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Shape {
    /// Positions up to a distance.
    Circle {
        /// The distance.
        radius: f64,
    },
    /// Positions up to half of the width to the east and west, and half of the height to the north and south.
    Box {
        /// From west to east.
        width: f64,
        /// From south to north.
        height: f64,
    },
}

/// Area of a search.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Search {
    /// The middle.
    pub middle: Position,
    /// Shape of the area around the middle.
    pub shape: Shape,
    /// Meters of the unit of the shape.
    pub unit: f64,
}

/// Cells of a search: the one of the middle, and those around it.
const AROUND: [(i32, i32); 9] = [(0, 0), (0, 1), (0, -1), (1, 0), (-1, 0), (1, 1), (-1, 1), (1, -1), (-1, -1)];

impl Search {
    /// The distance of a position from the middle, if it is inside.
    pub fn finds(&self, position: Position) -> Option<f64> {
        let distance = self.middle.distance(position);
        let is_outside = match self.shape {
            Shape::Circle { radius } => distance > radius * self.unit,
            Shape::Box { width, height } => {
                let beside = Position { longitude: self.middle.longitude, latitude: position.latitude };
                position.distance_north(self.middle) > height * self.unit / 2.0 || position.distance(beside) > width * self.unit / 2.0
            }
        };
        (!is_outside).then_some(distance)
    }

    /// Meters from the middle to the farthest position inside.
    fn reach(&self) -> f64 {
        let reach = match self.shape {
            Shape::Circle { radius } => radius,
            Shape::Box { width, height } => ((width / 2.0) * (width / 2.0) + (height / 2.0) * (height / 2.0)).sqrt(),
        };
        reach * self.unit
    }

    /// Ranges of longitude and latitude that contain the whole area.
    fn bounds(&self) -> (Degrees, Degrees) {
        let (width, height) = match self.shape {
            Shape::Circle { radius } => (self.unit * radius, self.unit * radius),
            Shape::Box { width, height } => (self.unit * (width / 2.0), self.unit * (height / 2.0)),
        };
        let Position { longitude, latitude } = self.middle;
        let up = degrees(height / EARTH_RADIUS);
        // The side that is nearer to a pole has more degrees.
        let widest = if latitude < 0.0 { latitude - up } else { latitude + up };
        let aside = degrees(width / EARTH_RADIUS / radians(widest).cos());
        ((longitude - aside, longitude + aside), (latitude - up, latitude + up))
    }

    /// Number of steps of the finest grid whose cells are hardly smaller than the reach.
    fn steps(&self) -> u32 {
        let mut reach = self.reach();
        if reach == 0.0 {
            return STEPS;
        }
        let mut steps = 1i32;
        while reach < HALF_WAY {
            reach *= 2.0;
            steps += 1;
        }
        // One cell around the cell of the middle is enough then. Near the poles, cells are narrower.
        let latitude = self.middle.latitude.abs();
        let narrower = if latitude > 80.0 { 2 } else { i32::from(latitude > 66.0) };
        u32::try_from(steps - 2 - narrower).unwrap_or(1).clamp(1, STEPS)
    }

    /// Ranges of scores, from the first one up to another (excluded), that cover all positions inside, and some outside.
    pub fn scores(&self) -> Vec<(f64, f64)> {
        let ((west, east), (south, north)) = self.bounds();
        let grid = |steps: u32| Cell::of(self.middle, steps, LATITUDES);
        let mut middle = grid(self.steps());
        let is_short = middle.beside(0, 1).latitudes().1 < north
            || middle.beside(0, -1).latitudes().0 > south
            || middle.beside(1, 0).longitudes().1 < east
            || middle.beside(-1, 0).longitudes().0 > west;
        if is_short && middle.steps > 1 {
            middle = grid(middle.steps - 1);
        }
        let is_useless = |(to_east, to_north): (i32, i32)| {
            middle.steps >= 2
                && (to_north < 0 && middle.latitudes().0 < south
                    || to_north > 0 && middle.latitudes().1 > north
                    || to_east < 0 && middle.longitudes().0 < west
                    || to_east > 0 && middle.longitudes().1 > east)
        };
        let mut cells: Vec<Cell> = Vec::with_capacity(AROUND.len());
        for way in AROUND.into_iter().filter(|way| !is_useless(*way)) {
            let cell = middle.beside(way.0, way.1);
            // In a coarse grid, the cells on both sides are the same.
            if cells.len() < 2 || cells.last() != Some(&cell) {
                cells.push(cell);
            }
        }
        cells.into_iter().map(Cell::scores).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Random;

    fn at(longitude: f64, latitude: f64) -> Position {
        Position::new(longitude, latitude).unwrap()
    }

    /// Positions of Redis's documentation.
    #[test]
    fn known_values() {
        let (palermo, catania) = (at(13.361389, 38.115556), at(15.087269, 37.502669));
        assert_eq!((palermo.score(), catania.score()), (3479099956230698.0, 3479447370796909.0));
        assert_eq!((&palermo.text(), &catania.text()), (b"sqc8b49rny0", b"sqdtr74hyu0"));
        let (palermo, catania) = (Position::from_score(palermo.score()), Position::from_score(catania.score()));
        assert_eq!((palermo.longitude, palermo.latitude), (13.361389338970184, 38.1155563954963));
        assert_eq!(format!("{:.4}", palermo.distance(catania)), "166274.1516");
        assert_eq!(palermo.distance(palermo), 0.0);
    }

    #[test]
    fn bits_alternate_and_come_back() {
        assert_eq!((spread(u32::MAX), spread(0b101), gather(0b11_0110)), (0x5555_5555_5555_5555, 0b1_0001, 0b110));
        let mut random = Random(1);
        for _ in 0..1000 {
            let (a, b) = (random.below(1 << 31) as u32, random.below(1 << 31) as u32 | 1 << 31);
            let bits = spread(a) | spread(b) << 1;
            assert_eq!((gather(bits), gather(bits >> 1)), (a, b));
        }
    }

    #[test]
    fn borders_of_the_map_are_on_it() {
        for (longitude, latitude) in [(180.0, 85.05112878), (-180.0, -85.05112878), (180.0, 0.0), (0.0, 85.05112878)] {
            let position = at(longitude, latitude);
            let back = Position::from_score(position.score());
            assert!((back.longitude - longitude).abs() < 1e-5 && (back.latitude - latitude).abs() < 1e-5, "{back:?}");
        }
        assert_eq!((Position::new(180.1, 0.0), Position::new(0.0, -85.06), Position::new(f64::INFINITY, 0.0)), (None, None, None));
    }

    /// Scores that are no positions are some position.
    #[test]
    fn any_score_is_somewhere() {
        for score in [0.0, -1.0, 0.5, 1e15, 1e300, -1e300, f64::INFINITY, f64::NEG_INFINITY, f64::MAX, 9.3e18] {
            let Position { longitude, latitude } = Position::from_score(score);
            assert!(Position::new(longitude, latitude).is_some(), "{score}");
        }
    }

    /// Every position that a full look finds lies in the ranges, and no range occurs twice.
    #[test]
    fn ranges_hold_what_is_inside() {
        let mut random = Random(2);
        let mut coordinate = |range: f64| (random.below(2_000_001) as f64 / 1e6 - 1.0) * range;
        for round in 0..400 {
            let middle = at(coordinate(179.0), coordinate(80.0));
            let size = 10f64.powf(2.0 + f64::from(round % 50) / 10.0);
            let shape = if round % 2 == 0 { Shape::Circle { radius: size } } else { Shape::Box { width: size, height: size * 1.5 } };
            let search = Search { middle, shape, unit: 1.0 };
            let ranges = search.scores();
            for (n, range) in ranges.iter().enumerate() {
                assert!(range.0 < range.1 && !ranges[n + 1..].contains(range), "{search:?}");
            }
            // Near the middle, so that some are inside.
            let spread = size / 111_000.0 * 1.5;
            for _ in 0..50 {
                let (longitude, latitude) = (middle.longitude + coordinate(spread), middle.latitude + coordinate(spread));
                let Some(position) = Position::new(longitude, latitude) else { continue };
                let score = position.score();
                let is_in = ranges.iter().any(|(from, to)| (*from..*to).contains(&score));
                // Across the 180th meridian and close to the poles, Redis does not look either.
                let is_plain = middle.longitude.abs() + spread * 6.0 < 180.0 && middle.latitude.abs() + spread < 66.0;
                assert!(is_in || !is_plain || search.finds(Position::from_score(score)).is_none(), "{search:?} {position:?}");
            }
        }
    }

    #[test]
    fn extreme_searches_have_ranges() {
        for size in [0.0, 5e-324, 1e-9, 1e9, f64::MAX, f64::INFINITY] {
            for middle in [at(0.0, 0.0), at(180.0, 85.05112878), at(-180.0, -85.05112878)] {
                for shape in [Shape::Circle { radius: size }, Shape::Box { width: size, height: 1.0 }] {
                    let ranges = Search { middle, shape, unit: 1609.34 }.scores();
                    assert!(!ranges.is_empty() && ranges.len() <= 9 && ranges.iter().all(|(from, to)| from <= to), "{size} {middle:?}");
                }
            }
        }
    }
}
