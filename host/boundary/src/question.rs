//! Questions to the user: what exactly will happen, in characters that can all be seen; and how often the user said no.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tool_core::api::Effect;
use tool_core::text::{reveal, reveal_line};

/// Question to the user. [`Question::new`] makes every one, so that none has a text that a reader does not see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    effect: Effect,
    title: String,
    detail: String,
    /// The skill call that waits for the answer.
    call_id: Option<Arc<str>>,
    may_last: bool,
}

impl Question {
    /// A question about an effect. Characters of `title` and `detail` that are invisible or reorder text get names, as
    /// `<U+202E>`.
    pub fn new(effect: Effect, title: &str, detail: &str) -> Self {
        Self {
            effect,
            title: reveal_line(title),
            detail: reveal(detail).into_owned(),
            call_id: None,
            may_last: false,
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

    /// The skill call that waits for the answer; absent if no call asks.
    pub fn call_id(&self) -> Option<&str> {
        self.call_id.as_deref()
    }

    /// True if the user may answer with a yes for the rest of the session.
    pub fn may_last(&self) -> bool {
        self.may_last
    }

    /// This question, which the user may also answer with a yes for the rest of the session.
    pub(crate) fn lasting(&self) -> Self {
        Self {
            may_last: true,
            ..self.clone()
        }
    }

    /// This question with the call that asks it, and with a remark after its title.
    pub(crate) fn of_call(&self, call_id: Option<&Arc<str>>, remark: Option<&str>) -> Self {
        let remark = remark.map(|remark| format!(" [{}]", reveal_line(remark)));
        Self {
            title: format!("{}{}", self.title, remark.unwrap_or_default()),
            call_id: call_id.cloned(),
            ..self.clone()
        }
    }
}

/// Answer of the user to a question. No answer is a no.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum UserAnswer {
    /// It may not happen.
    #[default]
    No,
    /// Exactly this may happen.
    Yes,
    /// The effect may happen for the rest of the session.
    YesForSession,
}

impl UserAnswer {
    /// True for a yes of any kind.
    pub fn is_yes(self) -> bool {
        self != Self::No
    }
}

/// The yeses for the rest of a session. Each counts until text from outside enters the conversation, because the user has
/// said yes to a conversation without that text.
#[derive(Debug, Default)]
pub struct LastingYeses(Mutex<BTreeMap<Effect, u64>>);

impl LastingYeses {
    /// Records a yes. `outside_texts` is the number of texts from outside when the user was asked.
    pub(crate) fn note(&self, effect: Effect, outside_texts: u64) {
        let mut yeses = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        yeses.insert(effect, outside_texts);
    }

    /// True if a yes to `effect` still counts: `outside_texts`, their number now, has not changed since.
    pub(crate) fn covers(&self, effect: Effect, outside_texts: u64) -> bool {
        let yeses = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        yeses.get(&effect) == Some(&outside_texts)
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
