//! Prices of tokens: `[prices."MODEL"]` of the user's file, and the same numbers from a router's list.

use serde::Deserialize;

/// Highest accepted price of a million tokens, in US dollars.
const PRICE_MAX: f64 = 1_000_000.0;

/// Default price of writing to a provider's cache, as a multiple of the input price: that of Anthropic.
const CACHE_WRITE_FACTOR: f64 = 1.25;

/// Prices of one model, in trillionths of a US dollar for one token: one dollar for a million tokens is 1,000,000.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "PriceRow")]
pub struct TokenPrice {
    input: u64,
    output: u64,
    cache_read: u64,
    cache_write: u64,
}

/// Prices in the configuration: US dollars for a million tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PriceRow {
    /// Input tokens.
    pub input: f64,
    /// Output tokens, thinking included.
    pub output: f64,
    /// Price of cached input tokens; that of `input` if absent.
    pub cache_read: Option<f64>,
    /// Price of input tokens that are written to the cache; 1.25 times `input` if absent.
    pub cache_write: Option<f64>,
}

/// Counts of tokens to be paid. Cached tokens are included in the input.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PaidTokens {
    /// All input.
    pub input: u64,
    /// Input read from the cache.
    pub cache_read: u64,
    /// Input written to the cache.
    pub cache_write: u64,
    /// All output.
    pub output: u64,
}

impl TokenPrice {
    /// Cost of these tokens in billionths of a US dollar, rounded up.
    pub fn cost_nanos(&self, tokens: PaidTokens) -> u64 {
        let plain = tokens.input.saturating_sub(tokens.cache_read + tokens.cache_write);
        let parts = [
            (plain, self.input),
            (tokens.cache_read, self.cache_read),
            (tokens.cache_write, self.cache_write),
            (tokens.output, self.output),
        ];
        let picos: u128 = parts
            .iter()
            .map(|(count, price)| u128::from(*count) * u128::from(*price))
            .sum();
        u64::try_from(picos.div_ceil(1000)).unwrap_or(u64::MAX)
    }

    /// Highest cost of this number of input tokens, with or without the provider's cache.
    pub fn input_cost_max(&self, input: u64) -> u64 {
        let dearest = self.input.max(self.cache_read).max(self.cache_write);
        let picos = u128::from(input) * u128::from(dearest);
        u64::try_from(picos.div_ceil(1000)).unwrap_or(u64::MAX)
    }

    /// Output tokens that a sum pays for; `None` if output is free.
    pub fn affordable_output(&self, nanos: u64) -> Option<u64> {
        let tokens = (u128::from(nanos) * 1000).checked_div(u128::from(self.output))?;
        Some(u64::try_from(tokens).unwrap_or(u64::MAX))
    }
}

impl TryFrom<PriceRow> for TokenPrice {
    type Error = &'static str;

    fn try_from(row: PriceRow) -> Result<Self, Self::Error> {
        let picos = |price: f64| {
            if (0.0..=PRICE_MAX).contains(&price) {
                Ok((price * 1e6).ceil() as u64)
            } else {
                Err("a price lies between 0 and 1000000 US dollars for a million tokens")
            }
        };
        Ok(Self {
            input: picos(row.input)?,
            output: picos(row.output)?,
            cache_read: picos(row.cache_read.unwrap_or(row.input))?,
            cache_write: picos(row.cache_write.unwrap_or(row.input * CACHE_WRITE_FACTOR))?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sonnet() -> TokenPrice {
        let row = PriceRow {
            input: 3.0,
            output: 15.0,
            cache_read: Some(0.3),
            cache_write: None,
        };
        row.try_into().expect("it is a price")
    }

    #[test]
    fn every_kind_of_token_has_its_price() {
        let tokens = PaidTokens {
            input: 1000,
            cache_read: 600,
            cache_write: 100,
            output: 10,
        };
        // 300 at $3, 600 at $0.30, 100 at $3.75, 10 at $15.
        assert_eq!(sonnet().cost_nanos(tokens), 900_000 + 180_000 + 375_000 + 150_000);
        assert_eq!(sonnet().input_cost_max(1000), 3_750_000);
        assert_eq!(sonnet().affordable_output(150_000), Some(10));
        let free = TokenPrice::try_from(PriceRow::default()).expect("it is a price");
        assert_eq!((free.input_cost_max(9), free.affordable_output(0)), (0, None));
    }

    #[test]
    fn a_cost_is_rounded_up_and_never_overflows() {
        let cheap = PriceRow {
            input: 0.0375,
            output: 0.0,
            ..PriceRow::default()
        };
        let cheap = TokenPrice::try_from(cheap).expect("it is a price");
        let one = PaidTokens {
            input: 1,
            ..PaidTokens::default()
        };
        assert_eq!(cheap.cost_nanos(one), 38);
        assert_eq!(sonnet().input_cost_max(u64::MAX), u64::MAX);
        for wrong in [-1.0, f64::NAN, 2e6] {
            let row = PriceRow {
                input: wrong,
                ..PriceRow::default()
            };
            assert!(TokenPrice::try_from(row).is_err(), "{wrong}");
        }
    }
}
