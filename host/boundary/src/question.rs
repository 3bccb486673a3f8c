//! Questions to the user: what exactly will happen, in characters that can all be seen; and how often the user said no.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tool_core::api::Effect;
use tool_core::text::{reveal, reveal_line};

/// Question to the user. [`Question::new`] makes every one, so that none has a text that a reader does not see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    effect: Effect,
    title: String,
    detail: String,
}

impl Question {
    /// A question about an effect. Characters of `title` and `detail` that are invisible or reorder text get names, as
    /// `<U+202E>`.
    pub fn new(effect: Effect, title: &str, detail: &str) -> Self {
        Self {
            effect,
            title: reveal_line(title),
            detail: reveal(detail).into_owned(),
        }
    }

    /// The effect that needs a yes.
    pub fn effect(&self) -> Effect {
        self.effect
    }

    /// One line.
    pub fn title(&self) -> &str {
        &self.title
    }

    /// The exact diff, argument vector or request.
    pub fn detail(&self) -> &str {
        &self.detail
    }

    /// The question with a remark behind its title.
    pub(crate) fn with_remark(&self, remark: &str) -> Self {
        Self {
            title: format!("{} [{}]", self.title, reveal_line(remark)),
            ..self.clone()
        }
    }
}

/// Noes to one effect after which it is denied: a model that asks until the user gives in gets nothing by it.
const NOES_MAX: u32 = 2;

/// The noes of a session's user, by effect. A question that is not answered in time is one, too.
#[derive(Debug, Default)]
pub struct Refusals(Mutex<BTreeMap<Effect, u32>>);

impl Refusals {
    /// Counts a no.
    pub(crate) fn note(&self, effect: Effect) {
        *self.lock().entry(effect).or_default() += 1;
    }

    /// True where the user is not asked about the effect any more.
    pub fn is_final(&self, effect: Effect) -> bool {
        self.lock().get(&effect).is_some_and(|&noes| noes >= NOES_MAX)
    }

    /// True where that holds for some effect.
    pub(crate) fn has_final(&self) -> bool {
        self.lock().values().any(|&noes| noes >= NOES_MAX)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Effect, u32>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
