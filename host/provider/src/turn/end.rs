//! Outcome of a turn: how it ended, what there is, and what is missing.

use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use crate::{Message, ProviderError, Usage};
use tool_core::api::Dollars;

/// Outcome of a turn.
#[derive(Debug)]
pub struct TurnReport {
    /// The conversation, but for the last answer: see [`TurnReport::take_messages`].
    pub messages: Vec<Message>,
    /// The last answer, unless it is among the messages.
    pub(super) last: Option<LastAnswer>,
    /// All answer text of this turn, as the observer got it.
    pub text: Arc<String>,
    /// Tokens of all requests, those of earlier turns included.
    pub usage: Usage,
    /// Requests that were made, those of earlier turns included.
    pub steps: u32,
    /// Names of the calls that the model asked for and that did not run, or not to their end, because the turn ended;
    /// for [`Budget::Repetition`] the call that came again.
    pub undone: Vec<String>,
    /// End of the turn.
    pub end: Result<TurnEnd, ProviderError>,
}

impl TurnReport {
    /// Messages of [`TurnReport::take_messages`], all of which the observer knows.
    pub fn messages_known(&self) -> usize {
        self.messages.len() + usize::from(self.last.is_some())
    }

    /// Takes out the conversation, the answers included; every call in it has its answer.
    pub fn take_messages(&mut self) -> Vec<Message> {
        let mut messages = std::mem::take(&mut self.messages);
        if let Some(last) = self.last.take() {
            messages.push(last.message(&self.text));
        }
        messages
    }
}

/// An answer that is no message yet: the text of a turn from some place on.
#[derive(Debug)]
pub(super) struct LastAnswer {
    pub(super) from: usize,
    /// See [`Message::Assistant`].
    pub(super) opaque: Value,
}

impl LastAnswer {
    /// The answer as a message. `text` is that of the turn.
    pub(super) fn message(&self, text: &str) -> Message {
        Message::Assistant {
            text: text[self.from..].to_owned(),
            tool_calls: Vec::new(),
            opaque: self.opaque.clone(),
        }
    }
}

/// End of a turn that did not fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TurnEnd {
    /// The model said all it had to say.
    Complete,
    /// The model, or its vendor's filter, declined.
    Refused,
    /// A bound ended it: what there is, is partial.
    Exhausted(Budget),
}

/// The bound that ended a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Budget {
    /// `steps_max`.
    Steps,
    /// `tokens_max`.
    Tokens {
        /// Estimated tokens of the request that was not made; 0 where the bound cut off an answer.
        needed: u64,
    },
    /// `cost_bound`.
    Cost {
        /// Cost that the request could have had that was not made; 0 where the bound cut off an answer.
        needed: Dollars,
    },
    /// `deadline`.
    Time,
    /// The output limit of a single answer.
    Output,
    /// One call was made again and again.
    Repetition,
}

impl fmt::Display for Budget {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Steps => "the limit of rounds is reached",
            Self::Tokens { .. } => "the limit of tokens is reached",
            Self::Cost { .. } => "the limit of cost is reached",
            Self::Time => "the time is up",
            Self::Output => "the model's output limit cut it off",
            Self::Repetition => "the model made the same call again and again",
        })
    }
}
