//! Sums of US dollars, counted exactly and written as a number.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

const NANOS: f64 = 1e9;

/// A sum of money. Programs read and write it as a number of US dollars.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "f64", into = "f64")]
pub struct Dollars {
    nanos: u64,
}

impl Dollars {
    /// Largest accepted sum, in dollars. A session costs far less.
    pub const MAX: f64 = 1_000_000.0;

    /// A sum from billionths of a dollar.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self { nanos }
    }

    /// Billionths of a dollar.
    pub const fn nanos(self) -> u64 {
        self.nanos
    }
}

impl TryFrom<f64> for Dollars {
    type Error = &'static str;

    fn try_from(dollars: f64) -> Result<Self, Self::Error> {
        if (0.0..=Self::MAX).contains(&dollars) {
            Ok(Self::from_nanos((dollars * NANOS).round() as u64))
        } else {
            Err("a sum of US dollars lies between 0 and 1000000")
        }
    }
}

impl From<Dollars> for f64 {
    fn from(sum: Dollars) -> Self {
        sum.nanos as f64 / NANOS
    }
}

impl FromStr for Dollars {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let number: f64 = text
            .trim_start_matches('$')
            .parse()
            .map_err(|_| "give a sum of US dollars, such as 0.50")?;
        number.try_into()
    }
}

/// Cents, and further digits if a small sum needs them.
impl fmt::Display for Dollars {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dollars = f64::from(*self);
        match self.nanos {
            0 => formatter.write_str("$0"),
            1..10_000_000 => write!(formatter, "${dollars:.6}"),
            10_000_000..1_000_000_000 => write!(formatter, "${dollars:.4}"),
            _ => write!(formatter, "${dollars:.2}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_is_read_and_written_as_a_number_of_dollars() {
        let sum: Dollars = serde_json::from_str("0.25").expect("it is a sum");
        assert_eq!(sum, Dollars::from_nanos(250_000_000));
        assert_eq!(serde_json::to_string(&sum).expect("it is a number"), "0.25");
        assert_eq!("$1.5".parse(), Ok(Dollars::from_nanos(1_500_000_000)));
        for wrong in ["-1", "1e7", "NaN", "", "a lot"] {
            assert!(wrong.parse::<Dollars>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_small_sum_is_shown_with_more_digits() {
        let shown = |nanos| Dollars::from_nanos(nanos).to_string();
        assert_eq!(
            [0, 1_234_000, 31_200_000, 2_500_000_000].map(shown),
            ["$0", "$0.001234", "$0.0312", "$2.50"]
        );
    }
}
