//! Taint: text from outside the user's own files has entered a conversation.
//!
//! `tool_repository::foreign` knows such places by their names. `guard` and `imports` record what a call has read and run, and
//! `call` judges it at the end of the call. The policy decides what a tainted conversation may still cause without a
//! fresh yes.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::limits;

/// Foreign text that has entered the conversation of a session.
#[derive(Debug, Default)]
pub struct Taint {
    is_untrusted: bool,
    places: Mutex<Vec<String>>,
}

impl Taint {
    /// Nothing yet; in a repository that is not trusted, everything.
    pub fn new(is_untrusted: bool) -> Self {
        Self {
            is_untrusted,
            places: Mutex::default(),
        }
    }

    /// True where the repository itself is not trusted.
    pub fn is_untrusted(&self) -> bool {
        self.is_untrusted
    }

    /// Takes note of text from these places.
    pub fn note(&self, places: &[String]) {
        let mut known = self.lock();
        for place in places {
            if known.len() < limits::FOREIGN_PLACES_MAX && !known.contains(place) {
                known.push(place.clone());
            }
        }
    }

    /// The places from which text has come.
    pub fn places(&self) -> Vec<String> {
        self.lock().clone()
    }

    /// True once untrusted text has entered the conversation.
    pub fn is_tainted(&self) -> bool {
        self.is_untrusted || !self.lock().is_empty()
    }

    /// Reason for the taint, as the end of a sentence; `None` without taint.
    pub fn because(&self) -> Option<String> {
        let places = self.lock();
        match (self.is_untrusted, places.is_empty()) {
            (true, _) => Some("this repository is not trusted".to_owned()),
            (false, true) => None,
            (false, false) => Some(format!(
                "text from outside the user's own files has entered the conversation ({})",
                places.join(", ")
            )),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<String>> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_tainted_is_said_once_and_within_bounds() {
        let taint = Taint::default();
        assert_eq!((taint.is_tainted(), taint.because()), (false, None));
        for number in 0..50 {
            taint.note(&["`vendor`".to_owned(), format!("`{number}.log`")]);
        }
        let because = taint.because().expect("it is tainted");
        assert!(
            because.contains("(`vendor`, `0.log`, `1.log`") && !because.contains("`15.log`"),
            "{because}"
        );
        let untrusted = Taint::new(true);
        assert!(untrusted.is_tainted());
        assert_eq!(untrusted.because().as_deref(), Some("this repository is not trusted"));
    }
}
