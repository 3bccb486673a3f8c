//! Follows the events of a session, shows the status while none arrives, and handles the user's interruption.

use tokio::time::{Interval, MissedTickBehavior, interval};
use tool_core::api::Event;

use super::end_signals::EndSignals;
use super::session_tally::SessionTally;
use crate::client::ServerEvents;
use crate::error::Error;
use crate::output::{CommandOutput, StatusLine, TICK};

/// An event stream at a terminal.
#[derive(Debug)]
pub(super) struct EventFollower {
    events: ServerEvents,
    waiting: WaitState,
    /// A CI system ends a job by SIGTERM, which cancels the session as Ctrl-C does.
    ending: EndSignals,
    tick: Interval,
}

impl EventFollower {
    /// Follows a stream.
    pub(super) fn new(events: ServerEvents, waiting: WaitState) -> Result<Self, Error> {
        let mut tick = interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Ok(Self {
            events,
            waiting,
            ending: EndSignals::new()?,
            tick,
        })
    }

    /// Secret that answers the approvals of the stream's session.
    pub(super) fn secret(&self) -> String {
        self.events.secret()
    }

    pub(super) fn session(&self) -> Option<&str> {
        self.events.session()
    }

    /// Ends the stream after the terminal event. True if the connection can serve another request.
    pub(super) async fn finish(self) -> bool {
        self.events.finish().await
    }

    /// Error for a stream that ended without its terminal event.
    pub(super) async fn ended_early(&self) -> Error {
        self.events.ended_early().await
    }

    /// The next event; `None` at the end of the stream. When this returns, the terminal is free for other lines.
    pub(super) async fn next(&mut self) -> Result<Option<Event>, Error> {
        loop {
            let event = tokio::select! {
                biased;
                () = self.ending.asked() => Err(Error::Interrupted),
                event = self.events.next() => event,
                _ = self.tick.tick() => {
                    self.waiting.status.draw();
                    continue;
                }
            };
            if let Ok(Some(event)) = &event {
                self.waiting.after(event);
            }
            if !matches!(event, Ok(Some(Event::Live { .. } | Event::Usage { .. }))) {
                self.waiting.status.clear();
            }
            return event;
        }
    }
}

/// The current wait, derived from the events so far.
#[derive(Debug)]
pub(super) struct WaitState {
    status: StatusLine,
    model: String,
    /// Skills under way.
    skills: Vec<String>,
    /// Calls that have ended.
    tally: SessionTally,
    what: String,
}

impl WaitState {
    /// An operation with `model`. It begins by reading the repository.
    pub(super) fn for_operation(model: String, output: CommandOutput) -> Self {
        Self::new("scanning".to_owned(), model, output)
    }

    pub(super) fn for_skill(name: &str, output: CommandOutput) -> Self {
        Self::new(name.to_owned(), String::new(), output)
    }

    fn new(what: String, model: String, output: CommandOutput) -> Self {
        let mut status = StatusLine::new(output);
        status.wait_for(what.as_str());
        Self {
            status,
            model,
            skills: Vec::new(),
            tally: SessionTally::default(),
            what,
        }
    }

    fn after(&mut self, event: &Event) {
        self.tally.count(event);
        match event {
            Event::Live { line } => self.status.detail(line),
            Event::Selection { .. } => self.wait_for(format!("waiting for {}", self.model)),
            Event::Token { .. } => {
                // The first tests of a refactor run beside the model.
                let running = self.skills.iter().map(|name| format!(", {name}")).collect::<String>();
                self.wait_for(format!("{} is writing{running}", self.model));
            }
            Event::Skill { name, .. } => {
                self.skills.push(name.clone());
                self.wait_for(self.skills.join(", "));
            }
            Event::SkillResult { name, .. } => {
                if let Some(at) = self.skills.iter().position(|running| running == name) {
                    self.skills.remove(at);
                }
                if self.skills.is_empty() {
                    self.wait_for(format!("waiting for {}", self.model))
                } else {
                    self.wait_for(self.skills.join(", "))
                }
            }
            _ => {}
        }
    }

    /// The clock restarts when the wait is for something else.
    fn wait_for(&mut self, what: String) {
        if self.what != what {
            self.status.wait_for(what.as_str());
            self.what = what;
        }
        // A run shows the newest line of its output.
        self.status.detail(&self.tally.calls());
    }
}
