//! The tool-call loop: ask the provider, run what it asks for, answer, until it has nothing more to ask.
//!
//! The loop knows neither HTTP nor sessions nor wasmtime: it is given a provider, something that runs tools, and
//! something that is told what happens, which is how it is tested.

use std::future::Future;
use std::pin::Pin;

use crate::provider::{ToolCall, ToolResult, ToolSpec, Usage};

/// What runs the tools.
pub trait Tools: Send + Sync {
    /// What the model is offered.
    fn specs(&self) -> Vec<ToolSpec>;

    /// Runs one call. Never fails: what went wrong is a result with `is_error`.
    fn run<'a>(&'a self, call: &'a ToolCall) -> Pin<Box<dyn Future<Output = ToolResult> + Send + 'a>>;
}

/// What is told what happens, in order. Must not block.
pub trait Observer: Send + Sync {
    /// One step.
    fn step(&self, step: Step<'_>);
}

/// All that can happen in a turn.
#[derive(Debug, Clone, PartialEq)]
pub enum Step<'a> {
    /// A piece of answer text.
    Text(&'a str),
    /// A piece of thinking.
    Reasoning(&'a str),
    /// A tool call starts.
    ToolStarted(&'a ToolCall),
    /// A tool call ended.
    ToolFinished(&'a ToolCall, &'a ToolResult),
    /// Token counts so far, over all rounds.
    Usage(Usage),
    /// Something that the user should know: waiting before a retry, a truncation.
    Notice(&'a str),
}
