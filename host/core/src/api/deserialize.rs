//! Reads JSON as the schemas define it: `3.0` is the whole number 3, as some languages write it, and an array is not an
//! object, although serde would accept it as a struct.

use serde::Deserialize;
use serde::de::{DeserializeOwned, Deserializer, Error};
use serde_json::{Map, Number, Value};

/// Whole numbers up to here are exact in every JSON reader.
const EXACT_MAX: f64 = 9_007_199_254_740_991.0;

/// A whole number that is not negative; `None` for null.
pub(super) fn read_whole_number<'de, D: Deserializer<'de>, T: TryFrom<u64>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    let Some(number) = Option::<Number>::deserialize(deserializer)? else {
        return Ok(None);
    };
    let fraction = number
        .as_f64()
        .filter(|value| value.fract() == 0.0 && (0.0..=EXACT_MAX).contains(value));
    let value = number.as_u64().or(fraction.map(|value| value as u64));
    match value.and_then(|value| T::try_from(value).ok()) {
        Some(value) => Ok(Some(value)),
        None => Err(D::Error::custom(format!(
            "`{number}` is no whole number in the range that counts"
        ))),
    }
}

pub(super) fn read_object<'de, D: Deserializer<'de>, T: DeserializeOwned>(deserializer: D) -> Result<T, D::Error> {
    let fields = Map::deserialize(deserializer)?;
    T::deserialize(Value::Object(fields)).map_err(D::Error::custom)
}

#[cfg(test)]
mod tests {
    use crate::api::{BudgetRequest, ExecuteRequest};

    fn steps(text: &str) -> Option<Option<u32>> {
        let budget: Result<BudgetRequest, _> = serde_json::from_str(&format!("{{\"max_steps\": {text}}}"));
        budget.ok().map(|budget| budget.max_steps)
    }

    #[test]
    fn a_whole_number_may_be_written_as_a_fraction() {
        assert_eq!(
            (steps("3"), steps("3.0"), steps("3e2")),
            (Some(Some(3)), Some(Some(3)), Some(Some(300)))
        );
        assert_eq!(steps("null"), Some(None));
        for wrong in [
            "3.5",
            "-1",
            "-1.0",
            "1e10",
            "1e300",
            "4294967296",
            "\"3\"",
            "true",
            "[]",
        ] {
            assert_eq!(steps(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn an_array_is_no_object() {
        let with = |budget: &str| {
            let text = format!("{{\"operation\": \"explain\", \"repo_path\": \"/r\", \"budget\": {budget}}}");
            serde_json::from_str::<ExecuteRequest>(&text)
        };
        assert!(with("{}").is_ok() && with("{\"max_steps\": 1}").is_ok());
        for wrong in ["[]", "[1, 2, 3]", "null", "{\"max_step\": 1}"] {
            assert!(with(wrong).is_err(), "{wrong}");
        }
    }
}
