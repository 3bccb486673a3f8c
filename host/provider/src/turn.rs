//! The tool-call loop: asks the provider, runs the calls that it asks for, sends their results, and repeats until no
//! call comes.
//!
//! The loop knows nothing of HTTP, sessions or wasmtime: it is given a provider, a runner of tools and an observer, so
//! that a test can replace each. It guarantees that a call runs at most once, and only after the answer that asked for
//! it has properly ended; that each call gets one result, in order; that every early end can be told from completion;
//! and that what was written before an early end is kept.

mod bounds;
mod calls;
mod conversation;
mod cost;
mod end;
mod running;

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use futures_util::StreamExt;
use serde_json::Value;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::limits;
use crate::{
    LabelMark, Message, ModelRequest, Provider, ProviderError, ProviderEvent, StopReason, TokenRate, ToolCall,
    ToolResult, ToolSpec, Usage,
};
use tool_config::TokenPrice;
use tool_core::api::{ErrorKind, Problem};

use bounds::OUTPUT_TOKENS_MIN;
pub use calls::bounded_text;
pub use conversation::{tokens_without_old_results, too_long};
pub use cost::CostBound;
use cost::CountedRequest;
use end::LastAnswer;
pub use end::{Budget, TurnEnd, TurnReport};

/// Most bytes of text and thinking of one answer. The longest answer that any vendor sells, 128,000 tokens, is at most
/// a megabyte.
pub const ROUND_SAID_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Most bytes of text and thinking of one turn: half a megabyte for each of its `TURN_STEPS_MAX` rounds.
pub const TURN_SAID_BYTES_MAX: usize = 32 * 1024 * 1024;

/// Runner of the tools.
pub trait Tools: Send + Sync {
    /// Tools that the model is offered. They stay the same for a whole conversation.
    fn specs(&self) -> Vec<ToolSpec>;

    /// The call that this one replaces, with its id: that call is shown and runs. `None` if the call is run as it is.
    ///
    /// # Errors
    ///
    /// The reason why it cannot run, worded for the model.
    fn resolve(&self, _call: &ToolCall) -> Result<Option<ToolCall>, String> {
        Ok(None)
    }

    /// Runs one call. Never fails: a failure is a result with `is_error`.
    fn run<'a>(&'a self, call: &'a ToolCall) -> Pin<Box<dyn Future<Output = ToolResult> + Send + 'a>>;

    /// True if calls of this tool run one after the other, in the order in which the model made them. This is so for
    /// tools that change something, because the second call may build on the first.
    fn is_ordered(&self, _name: &str) -> bool {
        false
    }

    /// A message of the host that follows the results of the round that has just ended.
    fn take_message(&self) -> Option<String> {
        None
    }

    /// The turn ends early, because it was cancelled or is out of time. Running calls should end now; the turn waits
    /// for them briefly.
    fn stop(&self) {}
}

/// Receives a turn's steps, in order. Must not block.
pub trait Observer: Send + Sync {
    /// One step.
    fn step(&self, step: TurnStep<'_>);

    /// A message of the conversation is new, or differs from what this observer knows. `at` is its index.
    fn message(&self, _at: usize, _message: &Message) {}
}

/// A step of a turn.
#[derive(Debug, Clone, PartialEq)]
pub enum TurnStep<'a> {
    /// A piece of answer text.
    Text(&'a str),
    /// A piece of thinking.
    Reasoning(&'a str),
    /// A tool call starts.
    ToolStarted(&'a ToolCall),
    /// A tool call ended.
    ToolFinished(&'a ToolCall, &'a ToolResult),
    /// A call was cut off or could not be parsed, and did not run.
    CallCutOff {
        /// The tool's name, or its beginning.
        name: &'a str,
        /// Its arguments, or their beginning.
        arguments: &'a str,
    },
    /// Token counts so far, over all rounds.
    Usage(Usage),
    /// Something that the user should know, such as a wait before a retry or a truncation.
    Notice(&'a str),
}

/// One turn: a conversation that ends with a user's message, and the bounds of its answer.
pub struct Turn<'a> {
    /// Provider that answers.
    pub provider: &'a dyn Provider,
    /// Tools that the model may call.
    pub tools: &'a dyn Tools,
    /// Receiver of the turn's steps.
    pub observer: &'a dyn Observer,
    /// Instructions; never text from the repository.
    pub system: &'a str,
    /// The conversation so far.
    pub messages: Vec<Message>,
    /// Most requests that may ask for tools. After them one more is made for a closing answer.
    pub steps_max: u32,
    /// Most input and output tokens of all requests together. No request is made beyond it.
    pub tokens_max: Option<u64>,
    /// Price for requests whose cost the provider does not report.
    pub price: Option<TokenPrice>,
    /// Highest cost of all requests together. No request is made that could exceed it.
    pub cost_bound: Option<CostBound>,
    /// Most output tokens of each request; `None` leaves the choice to the provider.
    pub output_tokens_max: Option<u32>,
    /// Tokens of the model's context. Old tool results are dropped before a request fills it.
    pub context_tokens: u64,
    /// Time when the turn must have ended, tools included.
    pub deadline: Option<Instant>,
    /// Requests that earlier turns of the same conversation made; they count towards the bound.
    pub steps: u32,
    /// Tokens that earlier turns of the same conversation used; they count towards the bound.
    pub usage: Usage,
    /// Number of messages at the beginning of the conversation that the observer already knows.
    pub known: usize,
    /// The mark in the labels of tool results. All turns of one conversation share it.
    pub mark: LabelMark,
    /// Ends the turn at once.
    pub cancel: CancellationToken,
}

impl<'a> Turn<'a> {
    /// A turn with the usual bounds.
    pub fn new(
        provider: &'a dyn Provider,
        tools: &'a dyn Tools,
        observer: &'a dyn Observer,
        system: &'a str,
        messages: Vec<Message>,
    ) -> Self {
        Self {
            provider,
            tools,
            observer,
            system,
            messages,
            steps_max: limits::TURN_STEPS_MAX,
            tokens_max: None,
            price: None,
            cost_bound: None,
            output_tokens_max: None,
            context_tokens: limits::CONTEXT_TOKENS,
            deadline: None,
            steps: 0,
            usage: Usage::default(),
            known: 0,
            mark: crate::new_mark(),
            cancel: CancellationToken::new(),
        }
    }
}

/// Counts the tokens of a request with the server's tokenizer if the model's context is small. Otherwise four bytes are
/// taken for a token, and room is left for the error.
pub async fn token_rate(provider: &dyn Provider, context_tokens: u64, request: &ModelRequest<'_>) -> TokenRate {
    if context_tokens >= limits::SHORT_CONTEXT_TOKENS {
        return TokenRate::PROSE;
    }
    let counted = provider.count_tokens(request).await;
    counted.map_or(TokenRate::CODE, |tokens| {
        TokenRate::from_counts(tokens, request.bytes())
    })
}

/// Runs a turn to its end.
pub async fn run_turn(turn: Turn<'_>) -> TurnReport {
    let mut state = TurnState::new(turn);
    let end = match state.drive().await {
        Ok(end) => Ok(end),
        Err(TurnStop::Exhausted(budget)) => Ok(TurnEnd::Exhausted(budget)),
        Err(TurnStop::Failed(error)) => Err(error),
    };
    state.show_messages();
    if let Some(last) = &state.last {
        let at = state.turn.messages.len();
        state.turn.observer.message(at, &last.message(&state.text));
    }
    TurnReport {
        messages: state.turn.messages,
        last: state.last,
        text: Arc::new(state.text),
        usage: state.usage,
        steps: state.steps,
        undone: state.undone,
        end,
    }
}

/// Reason to end a turn from within a round.
enum TurnStop {
    Exhausted(Budget),
    Failed(ProviderError),
}

impl From<ProviderError> for TurnStop {
    fn from(error: ProviderError) -> Self {
        Self::Failed(error)
    }
}

struct TurnState<'a> {
    turn: Turn<'a>,
    specs: Vec<ToolSpec>,
    /// The answers of all rounds, as the observer got them. This is the only copy, because it may be long.
    text: String,
    /// The latest answer, if it is not yet a message of the conversation.
    last: Option<LastAnswer>,
    /// Number of messages at the beginning of the conversation that the observer knows.
    known: usize,
    /// Bytes of text and thinking of all rounds.
    said: usize,
    usage: Usage,
    /// The latest request that the provider has counted. It is valid while the conversation only grows.
    counted: Option<CountedRequest>,
    /// Of the next request.
    rate: TokenRate,
    steps: u32,
    repeats: HashMap<u64, usize>,
    cut_offs: u32,
    undone: Vec<String>,
    hinted: bool,
    nudged: bool,
}

/// A call that the output limit cut off.
struct CutOff {
    name: String,
    arguments: String,
}

/// A call that the model printed as text.
struct PrintedCall {
    held: String,
    is_quoted: bool,
}

/// One answer of the model.
#[derive(Default)]
struct ModelRound {
    /// Offset of its text within the text of the turn, which ends with it.
    from: usize,
    calls: Vec<ToolCall>,
    cut_off: Vec<CutOff>,
    broken_call: Option<String>,
    printed_call: Option<PrintedCall>,
    usage: Option<Usage>,
    stop: Option<StopReason>,
    opaque: Value,
    /// Bytes of its text and thinking.
    said: usize,
    /// The bound of the turn that left its request less output than the model's own bound; `None` if none did.
    lowered_by: Option<Budget>,
    /// Highest cost of its request, where the cost is bounded.
    most_nanos: Option<u64>,
    /// True if the server takes the conversation only without earlier thinking.
    thinking_refused: bool,
}

impl ModelRound {
    /// The bound that a truncated answer has reached.
    fn cut_by(&self) -> Budget {
        self.lowered_by.unwrap_or(Budget::Output)
    }

    /// Bytes that its calls take in a request.
    fn call_bytes(&self) -> usize {
        let calls = self.calls.iter().map(|call| call.name.len() + call.arguments.len());
        calls.sum()
    }
}

impl<'a> TurnState<'a> {
    fn new(turn: Turn<'a>) -> Self {
        Self {
            specs: turn.tools.specs(),
            usage: turn.usage,
            counted: None,
            rate: TokenRate::PROSE,
            steps: turn.steps,
            known: turn.known,
            turn,
            text: String::new(),
            last: None,
            said: 0,
            repeats: HashMap::new(),
            cut_offs: 0,
            undone: Vec::new(),
            hinted: false,
            nudged: false,
        }
    }

    async fn drive(&mut self) -> Result<TurnEnd, TurnStop> {
        loop {
            let round = self.ask().await?;
            if let Some(end) = self.follow(round).await? {
                return Ok(end);
            }
            if self.steps >= self.turn.steps_max {
                return Err(TurnStop::Exhausted(Budget::Steps));
            }
        }
    }

    /// Does what an answer asks for. Returns the end of the turn if it has ended.
    async fn follow(&mut self, mut round: ModelRound) -> Result<Option<TurnEnd>, TurnStop> {
        let stop = round.stop.unwrap_or(StopReason::EndTurn);
        if stop == StopReason::MaxTokens {
            // Calls of a truncated answer do not run, whatever stop reason the wire reports.
            let calls = round.calls.drain(..);
            round
                .cut_off
                .extend(calls.map(|ToolCall { name, arguments, .. }| CutOff { name, arguments }));
        }
        if !round.cut_off.is_empty() {
            return self.tell_cut_off(round);
        }
        if let Some(said) = round.broken_call.take() {
            return self.tell_broken(&round, &said);
        }
        if !round.calls.is_empty() {
            return self.answer_calls(round).await;
        }
        match stop {
            StopReason::MaxTokens => {
                self.keep(&round);
                Err(TurnStop::Exhausted(round.cut_by()))
            }
            StopReason::Refusal => {
                self.keep(&round);
                Ok(Some(TurnEnd::Refused))
            }
            StopReason::Pause => {
                self.add(&mut round);
                Ok(None)
            }
            StopReason::EndTurn | StopReason::ToolUse => self.end_turn(round),
        }
    }

    fn end_turn(&mut self, mut round: ModelRound) -> Result<Option<TurnEnd>, TurnStop> {
        if let Some(PrintedCall { held, is_quoted }) = round.printed_call.take() {
            if !std::mem::replace(&mut self.hinted, true) {
                let text = self.said_in(&round).to_owned() + &held;
                self.turn.messages.push(Message::from_model(text));
                self.say(PRINTED_CALL_HINT.to_owned());
                return Ok(None);
            }
            // The model repeats the printed call after the hint. If it is a quotation, it belongs to the answer.
            self.put_out(&mut round, &held);
            if !is_quoted {
                self.keep(&round);
                return Err(TurnStop::Failed(printed_calls(self.turn.provider.name()).into()));
            }
        }
        if self.said_in(&round).trim().is_empty() {
            if !std::mem::replace(&mut self.nudged, true) {
                self.say(EMPTY_HINT.to_owned());
                return Ok(None);
            }
            if self.text.trim().is_empty() {
                let problem = Problem::new(ErrorKind::ProviderEmptyAnswer, "The model ended without an answer")
                    .with_hint("run the operation again, or choose another model");
                return Err(TurnStop::Failed(problem.into()));
            }
        }
        self.keep(&round);
        if let Some(last) = &mut self.last {
            last.opaque = round.opaque;
        }
        Ok(Some(TurnEnd::Complete))
    }

    /// A call that was cut off is never completed by guessing: half a file would replace the whole one.
    fn tell_cut_off(&mut self, round: ModelRound) -> Result<Option<TurnEnd>, TurnStop> {
        for CutOff { name, arguments } in &round.cut_off {
            self.turn.observer.step(TurnStep::CallCutOff { name, arguments });
        }
        let cut_off: Vec<String> = round.cut_off.iter().map(|call| call.name.clone()).collect();
        let names = calls::quote_names(&cut_off);
        self.keep(&round);
        self.cut_offs += 1;
        if self.cut_offs >= limits::CUT_OFF_ROUNDS_MAX || round.lowered_by.is_some() {
            let budget = round.cut_by();
            self.undone = cut_off;
            return Err(TurnStop::Exhausted(budget));
        }
        let notice = format!("The output limit cut off a call of {names}; it was not run.");
        self.turn.observer.step(TurnStep::Notice(&notice));
        self.say(format!(
            "Your last answer reached the output limit while you wrote a call of {names}. The call was cut off, and \
             nothing of that answer was run. Go on in smaller steps: write less in one call, for example by changing a \
             file with edits, or in several calls."
        ));
        Ok(None)
    }

    /// Asks again for a call that could not be parsed, as for one that was cut off.
    fn tell_broken(&mut self, round: &ModelRound, said: &str) -> Result<Option<TurnEnd>, TurnStop> {
        self.keep(round);
        self.cut_offs += 1;
        if self.cut_offs >= limits::CUT_OFF_ROUNDS_MAX {
            let message = format!("The model's tool calls cannot be read: {said}");
            let problem = Problem::new(ErrorKind::ProviderStream, message)
                .with_hint("run the operation again, or choose another model");
            return Err(TurnStop::Failed(problem.into()));
        }
        let notice = format!("A tool call of the model could not be read ({said}); it was not run.");
        self.turn.observer.step(TurnStep::Notice(&notice));
        self.say(
            "Your last tool call could not be read, and nothing of that answer was run. Make the call again: one of \
             the tools you were given, its arguments as one JSON object."
                .to_owned(),
        );
        Ok(None)
    }

    async fn answer_calls(&mut self, mut round: ModelRound) -> Result<Option<TurnEnd>, TurnStop> {
        self.cut_offs = 0;
        self.add(&mut round);
        // The calls may change something, so the conversation must name who asked for them before they run.
        self.show_messages();
        if self.steps >= self.turn.steps_max {
            let results = round
                .calls
                .iter()
                .map(|call| calls::refuse_call(call, "Not run: the limit of rounds is reached."));
            let results = results.collect();
            self.turn.messages.push(Message::ToolResults { results });
            self.undone = calls::skill_names(&round.calls, self.turn.tools);
            return self.close(Budget::Steps).await;
        }
        let ran = self.run_calls(&round.calls).await;
        let repeated = calls::count_repeats(&mut self.repeats, &round.calls, &ran.results, self.turn.tools);
        self.turn.messages.push(Message::ToolResults { results: ran.results });
        self.show_messages();
        if let Some(stop) = ran.interrupted {
            self.undone = ran.unfinished;
            return Err(stop);
        }
        if let Some(again) = repeated {
            self.undone = calls::skill_names(std::slice::from_ref(again), self.turn.tools);
            return self.close(Budget::Repetition).await;
        }
        if let Some(text) = self.turn.tools.take_message() {
            self.say(text);
        }
        Ok(None)
    }

    /// Makes one last request without tools, so that what was found out is not lost.
    async fn close(&mut self, budget: Budget) -> Result<Option<TurnEnd>, TurnStop> {
        let notice = format!("No more tools can be used: {budget}. The model is asked for a closing answer.");
        self.turn.observer.step(TurnStep::Notice(&notice));
        self.say(format!(
            "No more tools can be used: {budget}. Write your final answer now from what you know, and say what you \
             could not find out or do."
        ));
        match self.ask().await {
            Ok(round) => self.keep(&round),
            Err(TurnStop::Failed(ProviderError::Cancelled)) => return Err(ProviderError::Cancelled.into()),
            // The bound ended the turn, even if the closing request failed.
            Err(_) => {}
        }
        Err(TurnStop::Exhausted(budget))
    }

    fn say(&mut self, text: String) {
        self.take_in_last();
        self.turn.messages.push(Message::User { text });
    }

    /// Text of the latest round.
    fn said_in(&self, round: &ModelRound) -> &str {
        &self.text[round.from..]
    }

    /// Adds the message of a round to the conversation, with its calls.
    fn add(&mut self, round: &mut ModelRound) {
        self.turn.messages.push(Message::Assistant {
            text: self.said_in(round).to_owned(),
            tool_calls: round.calls.clone(),
            opaque: std::mem::take(&mut round.opaque),
        });
    }

    /// Keeps the text of an answer whose calls do not count. It becomes a message only when the conversation goes on,
    /// because the last answer may be long and is mostly not needed as a message.
    fn keep(&mut self, round: &ModelRound) {
        if !self.said_in(round).is_empty() {
            self.last = Some(LastAnswer {
                from: round.from,
                opaque: Value::Null,
            });
        }
    }

    fn take_in_last(&mut self) {
        if let Some(last) = self.last.take() {
            self.turn.messages.push(last.message(&self.text));
        }
    }

    /// Shows the observer the messages that it does not know.
    fn show_messages(&mut self) {
        for (at, message) in self.turn.messages.iter().enumerate().skip(self.known) {
            self.turn.observer.message(at, message);
        }
        self.known = self.turn.messages.len();
    }

    fn put_out(&mut self, round: &mut ModelRound, piece: &str) {
        // The texts of two rounds are separate paragraphs.
        if self.said_in(round).is_empty() && !self.text.trim().is_empty() && !self.text.ends_with('\n') {
            self.text.push_str("\n\n");
            round.from = self.text.len();
            self.turn.observer.step(TurnStep::Text("\n\n"));
        }
        self.text.push_str(piece);
        self.turn.observer.step(TurnStep::Text(piece));
    }

    /// Makes one request, and repeats it with a shorter conversation if the provider says that it is too long.
    async fn ask(&mut self) -> Result<ModelRound, TurnStop> {
        self.measure().await;
        self.shorten(self.conversation_tokens_max());
        let needed = self.next_request().estimated_tokens();
        if needed > self.conversation_tokens_max() {
            let problem = conversation::too_long(self.turn.context_tokens, &self.specs, self.rate);
            return Err(TurnStop::Failed(problem.into()));
        }
        if self.tokens_left().is_some_and(|left| left < needed + OUTPUT_TOKENS_MIN) {
            return Err(TurnStop::Exhausted(Budget::Tokens { needed }));
        }
        match self.request().await {
            Err(TurnStop::Failed(ProviderError::Failed(problem)))
                if problem.kind == ErrorKind::ContextLengthExceeded =>
            {
                // The error may have named the context size.
                if let Some(tokens) = self.turn.provider.context_tokens().await {
                    self.turn.context_tokens = self.turn.context_tokens.min(tokens);
                    self.measure().await;
                }
                if self.shorten(self.conversation_tokens_max()) || self.shorten(0) {
                    self.request().await
                } else {
                    Err(TurnStop::Failed(problem.into()))
                }
            }
            result => result,
        }
    }

    async fn measure(&mut self) {
        self.rate = token_rate(self.turn.provider, self.turn.context_tokens, &self.next_request()).await;
    }

    fn next_request(&self) -> ModelRequest<'_> {
        ModelRequest {
            system: self.turn.system,
            messages: &self.turn.messages,
            tools: &self.specs,
            max_tokens: None,
            mark: self.turn.mark,
        }
    }

    /// Drops old tool results until the conversation fits. True if any was dropped.
    fn shorten(&mut self, tokens_max: u64) -> bool {
        let request = ModelRequest {
            system: self.turn.system,
            messages: &[],
            tools: &self.specs,
            max_tokens: None,
            mark: self.turn.mark,
        };
        let room = tokens_max.saturating_sub(request.estimated_tokens());
        let before: Vec<usize> = self.turn.messages.iter().map(Message::bytes).collect();
        let dropped = conversation::shorten_messages(&mut self.turn.messages, room);
        if dropped > 0 {
            for (at, message) in self.turn.messages.iter().enumerate().take(self.known) {
                if message.bytes() != before[at] {
                    self.turn.observer.message(at, message);
                }
            }
            self.change_known(crate::drop_bound_thinking);
            self.counted = None;
            let notice = format!("The conversation grew long: {dropped} old tool results were dropped from it.");
            self.turn.observer.step(TurnStep::Notice(&notice));
        }
        dropped > 0
    }

    /// Changes messages of the conversation, and shows the observer those that it knew in another form.
    fn change_known(&mut self, change: impl Fn(&mut Message) -> bool) {
        for (at, message) in self.turn.messages.iter_mut().enumerate() {
            if change(message) && at < self.known {
                self.turn.observer.message(at, message);
            }
        }
    }

    async fn request(&mut self) -> Result<ModelRound, TurnStop> {
        self.take_in_last();
        self.show_messages();
        let cost = self.cost_of_next()?;
        self.steps += 1;
        let (max_tokens, lowered_by) = self.output_bound(cost);
        let most_nanos = self.turn.cost_bound.zip(cost).map(|(bound, cost)| {
            let output_tokens = max_tokens.map(u64::from);
            bound.most_nanos(cost.input_tokens, output_tokens)
        });
        let mut round = ModelRound {
            from: self.text.len(),
            lowered_by,
            most_nanos,
            ..ModelRound::default()
        };
        // Taken out during the request, which borrows it while the rest of the state changes.
        let messages = std::mem::take(&mut self.turn.messages);
        let specs = std::mem::take(&mut self.specs);
        let request = ModelRequest {
            system: self.turn.system,
            messages: &messages,
            tools: &specs,
            max_tokens,
            mark: self.turn.mark,
        };
        let ended = self.read_answer(request, &mut round).await;
        self.count_usage(&request, &round);
        self.turn.messages = messages;
        self.specs = specs;
        for call in &mut round.calls {
            calls::drop_namespace(call, &mut round.opaque, &self.specs);
        }
        if round.thinking_refused {
            self.change_known(crate::drop_thinking);
        }
        match ended {
            Ok(()) => Ok(round),
            Err(stop) => {
                self.keep(&round);
                Err(stop)
            }
        }
    }

    async fn read_answer(&mut self, request: ModelRequest<'_>, round: &mut ModelRound) -> Result<(), TurnStop> {
        let provider = self.turn.provider;
        let cancel = self.turn.cancel.clone();
        let mut events = provider.stream(request, cancel.clone());
        while round.stop.is_none() {
            let event = tokio::select! {
                biased;
                () = cancel.cancelled() => return Err(ProviderError::Cancelled.into()),
                () = wait_until(self.turn.deadline) => return Err(TurnStop::Exhausted(Budget::Time)),
                event = events.next() => event,
            };
            match event {
                Some(event) => self.take(event?, round)?,
                None => {
                    let problem = Problem::new(
                        ErrorKind::ProviderStream,
                        "The provider's answer is incomplete: it has no end",
                    )
                    .with_hint("run the operation again; no tool ran for the answer that broke off");
                    return Err(TurnStop::Failed(problem.into()));
                }
            }
        }
        Ok(())
    }

    fn take(&mut self, event: ProviderEvent, round: &mut ModelRound) -> Result<(), TurnStop> {
        let observer = self.turn.observer;
        if let ProviderEvent::Text(text) | ProviderEvent::Reasoning(text) = &event {
            self.hear(round, text.len())?;
        }
        match event {
            ProviderEvent::Text(text) => self.put_out(round, &text),
            ProviderEvent::Reasoning(text) => observer.step(TurnStep::Reasoning(&text)),
            ProviderEvent::ToolCall(call) => round.calls.push(call),
            ProviderEvent::CutOffCall { name, arguments } => round.cut_off.push(CutOff { name, arguments }),
            ProviderEvent::BrokenCall { said } => round.broken_call = Some(said),
            ProviderEvent::TextCall { held, is_quoted } => round.printed_call = Some(PrintedCall { held, is_quoted }),
            ProviderEvent::Usage(usage) => round.usage = Some(usage),
            ProviderEvent::Waiting { reason } => observer.step(TurnStep::Notice(&reason)),
            ProviderEvent::Notice(text) => observer.step(TurnStep::Notice(&text)),
            ProviderEvent::ThinkingRefused => {
                round.thinking_refused = true;
                observer.step(TurnStep::Notice(THINKING_REFUSED));
            }
            ProviderEvent::Stop { reason, opaque } => {
                round.stop = Some(reason);
                round.opaque = opaque;
            }
        }
        Ok(())
    }

    /// Counts what the model says and thinks, which is kept in memory and on the disk.
    fn hear(&mut self, round: &mut ModelRound, bytes: usize) -> Result<(), TurnStop> {
        round.said += bytes;
        self.said += bytes;
        let (what, bytes_max) = match (round.said, self.said) {
            (said, _) if said > ROUND_SAID_BYTES_MAX => ("one answer", ROUND_SAID_BYTES_MAX),
            (_, said) if said > TURN_SAID_BYTES_MAX => ("its answers", TURN_SAID_BYTES_MAX),
            _ => return Ok(()),
        };
        let megabytes = bytes_max / (1024 * 1024);
        let message = format!("The provider sent more than {megabytes} MiB of text and thinking in {what}");
        let problem = Problem::new(ErrorKind::ProviderStream, message)
            .with_hint("no model writes as much: look at what answers there, or ask another model");
        Err(TurnStop::Failed(problem.into()))
    }
}

const THINKING_REFUSED: &str = "The provider refused the thinking of earlier answers, because the conversation before it has \
    changed. It was asked again without that thinking.";

const PRINTED_CALL_HINT: &str = "Your last message has the form of a tool call, printed as text. Nothing was run. If \
    you want to use a tool, call it through the tool interface. If that text was meant as your answer, write the \
    answer again in your own words.";

/// The problem of a model that prints its calls even after the hint.
fn printed_calls(provider: &str) -> Problem {
    Problem::new(
        ErrorKind::ToolsUnsupported,
        "The answer is incomplete: the model printed a tool call as text, and it was not run",
    )
    .with_hint(format!(
        "choose a model or a server with native tool calls, or set `text_calls = true` in [providers.{provider}] of \
         config.toml: then such calls count"
    ))
}

const EMPTY_HINT: &str = "Your last message was empty. Write your answer now.";

/// Returns at the deadline, and never if there is no deadline.
pub async fn wait_until(deadline: Option<Instant>) {
    match deadline {
        // A timer needs a moment even if its time is over, and a quick answer could slip through meanwhile.
        Some(deadline) if deadline <= Instant::now() => {}
        Some(deadline) => sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}
