//! Effects, and who may cause them: pure functions from an operation and flags to a decision on each effect.

use tool_core::api::{Effect, ErrorKind, Grant, Operation, PolicyRequest, Problem};
use tool_sandbox::program_sandbox::{AvailableSandbox, Sandbox};

/// Decision on an effect that a skill causes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Decision {
    /// The effect is refused.
    Deny,
    /// The user is asked; the effect is refused if no user can be asked.
    Ask,
    /// The effect is allowed.
    Allow,
}

/// What causes effects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EffectCause {
    /// A model, in one of the four operations.
    Operation(Operation),
    /// The user, by `tool skill call`.
    SkillCall,
}

/// Files that a granted `write-repository` covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteScope {
    /// All files that are not protected.
    Any,
    /// New files, and those that the session created: existing files stay as they are.
    OnlyCreated,
}

/// Where the user of a session can grant what its policy denies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GrantPlace {
    /// Flags of the command that the user typed.
    Flags,
    /// The field `policy` of the request that a program sent.
    Request,
    /// The arguments of `tool mcp`, in the configuration of another agent.
    AgentEntry,
    /// The user's own configuration: the session's client uses HTTP, through which no request can grant anything.
    Configuration,
}

/// Decisions on effects: the defaults for a cause, and the grants of the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    cause: EffectCause,
    allow: Vec<Grant>,
    deny: Vec<Grant>,
    is_untrusted: bool,
    is_task_untrusted: bool,
    writes: WriteScope,
    allow_paths: Vec<String>,
    sandbox: Sandbox,
    /// Effects that the user allowed by name to run without a sandbox.
    unsandboxed: Vec<Effect>,
    require_sandbox: bool,
    asks_before_write: bool,
    /// Effects about which the session asks instead of denying them.
    asked: Vec<Grant>,
    /// True if the client of the session answers only questions about `asked`.
    answers_asked_alone: bool,
    place_of_grants: GrantPlace,
}

impl Policy {
    /// The defaults for a cause, with the flags of a request. `deny` wins over `allow`.
    ///
    /// # Errors
    ///
    /// A flag names an unknown effect.
    pub fn new(cause: EffectCause, request: &PolicyRequest) -> Result<Self, Problem> {
        Ok(Self {
            cause,
            allow: parse_grants(&request.allow)?,
            deny: parse_grants(&request.deny)?,
            is_untrusted: request.untrusted,
            is_task_untrusted: request.untrusted_task,
            writes: match cause {
                EffectCause::Operation(Operation::TestGen) => WriteScope::OnlyCreated,
                EffectCause::Operation(_) | EffectCause::SkillCall => WriteScope::Any,
            },
            allow_paths: request.allow_paths.clone(),
            sandbox: Sandbox::None,
            unsandboxed: Vec::new(),
            require_sandbox: request.require_sandbox,
            asks_before_write: request.ask_before_write,
            asked: Vec::new(),
            answers_asked_alone: false,
            place_of_grants: GrantPlace::Flags,
        })
    }

    /// Asks about the effects in `names` instead of denying them. A client that is not interactive answers only
    /// questions about these.
    ///
    /// # Errors
    ///
    /// An effect that changes nothing, because there are no questions about such effects.
    pub fn asking(mut self, names: &[String], is_interactive: bool) -> Result<Self, Problem> {
        self.asked = parse_grants(names)?;
        self.answers_asked_alone = !is_interactive && !names.is_empty();
        match self.asked.iter().find(|grant| !grant.effect().changes_something()) {
            None => Ok(self),
            Some(grant) => {
                let message = format!("`ask` cannot name `{grant}`: it changes nothing, and is not asked about");
                Err(Problem::new(ErrorKind::InvalidPolicy, message).with_hint(
                    "name write-repository, run-process, commit-git, install or http-write:HOST, and leave out the others",
                ))
            }
        }
    }

    /// False if the client of the session answers only questions about other effects.
    pub fn may_ask(&self, effect: Effect) -> bool {
        !self.answers_asked_alone || self.is_asked(effect)
    }

    fn is_asked(&self, effect: Effect) -> bool {
        self.asked.iter().any(|grant| grant.names(effect))
    }

    /// Sets the place that denials name.
    pub fn granted_in(mut self, place: GrantPlace) -> Self {
        self.place_of_grants = place;
        self
    }

    /// Says how the user of such a session grants this: by a flag, a field of the request, or the configuration.
    pub fn grant_text(&self, grant: &PolicyRequest) -> String {
        match self.place_of_grants {
            GrantPlace::Flags => format!("`{}`", format_flags(grant)),
            GrantPlace::Request => {
                let policy = serde_json::to_string(grant).expect("its keys are strings");
                format!("`\"policy\": {policy}` in the request")
            }
            GrantPlace::AgentEntry => format!("`{}` in the arguments of `tool mcp`", format_flags(grant)),
            GrantPlace::Configuration => format!("`tool mcp {}` in place of HTTP", format_flags(grant)),
        }
    }

    /// Names the settings that require a full sandbox, for the user of such a session.
    pub fn required_sandbox_text(&self) -> &'static str {
        match self.place_of_grants {
            GrantPlace::Flags | GrantPlace::AgentEntry => {
                "`--require-sandbox`, and `require_sandbox` in the configuration"
            }
            GrantPlace::Request => "`require_sandbox` in the request and in the configuration",
            GrantPlace::Configuration => "`require_sandbox` in the configuration",
        }
    }

    /// True if the session works for another agent.
    pub fn is_of_another_agent(&self) -> bool {
        matches!(self.place_of_grants, GrantPlace::AgentEntry | GrantPlace::Configuration)
    }

    /// The decision if the conversation is not tainted and a user can be asked.
    fn decision(&self, effect: Effect) -> Decision {
        if self.is_denied(effect, false) {
            return Decision::Deny;
        }
        let asks = self.asks_before_write && effect == Effect::WriteRepository;
        match self.granted(effect) {
            Decision::Allow if asks => Decision::Ask,
            Decision::Deny if self.is_asked(effect) => Decision::Ask,
            decision => decision,
        }
    }

    /// The decision on an effect that is not denied by name.
    fn granted(&self, effect: Effect) -> Decision {
        if self.allow.iter().any(|grant| grant.names(effect)) {
            return Decision::Allow;
        }
        match default(self.cause, effect) {
            // In a sandbox, tests run without a question.
            Decision::Ask if effect == Effect::RunProcess && self.sandbox(effect) != Sandbox::None => Decision::Allow,
            decision => decision,
        }
    }

    /// True if `deny` names the effect for such a conversation.
    pub fn is_denied(&self, effect: Effect, is_tainted: bool) -> bool {
        self.deny.iter().any(|grant| grant.covers(effect, is_tainted))
    }

    /// The user's own decision for tainted conversations.
    fn tainted(&self, effect: Effect) -> Option<Decision> {
        let names = |grants: &[Grant]| grants.iter().any(|grant| grant.is_tainted() && grant.names(effect));
        match (names(&self.deny), names(&self.allow)) {
            (true, _) => Some(Decision::Deny),
            (false, true) => Some(Decision::Allow),
            (false, false) => None,
        }
    }

    /// Removes the sandbox from effects that the request itself allows by name, if the request says so. Effects that
    /// the configuration allows do not count: the user did not allow those to run with the user's own rights.
    ///
    /// # Errors
    ///
    /// The request names no such effect, or a sandbox is required too.
    pub fn unsandboxed_by(mut self, request: &PolicyRequest) -> Result<Self, Problem> {
        if request.unsandboxed {
            self.unsandboxed = select_unsandboxed(&request.allow, self.require_sandbox)?;
        }
        Ok(self)
    }

    /// Sets the sandbox that this machine has for runs. With a sandbox, tests run where the policy would ask.
    /// `available` is called only if something may run, because finding it out takes a moment the first time.
    ///
    /// # Errors
    ///
    /// A full sandbox is required, and tests could run without one.
    pub fn contained<'a>(mut self, available: impl FnOnce() -> &'a AvailableSandbox) -> Result<Self, Problem> {
        let [run, install] = CONTAINED.map(|effect| self.decision(effect));
        if run == Decision::Deny && install == Decision::Deny {
            return Ok(self);
        }
        let available = available();
        self.sandbox = available.sandbox;
        if self.require_sandbox && self.sandbox != Sandbox::Namespaces && run != Decision::Deny {
            return Err(sandbox_missing(available));
        }
        Ok(self)
    }

    /// Sandbox of a run with this effect. An installation needs a network of its own, so it has the full sandbox or
    /// none.
    pub fn sandbox(&self, effect: Effect) -> Sandbox {
        match effect {
            _ if self.unsandboxed.contains(&effect) => Sandbox::None,
            Effect::RunProcess => self.sandbox,
            Effect::Install if self.sandbox == Sandbox::Namespaces => self.sandbox,
            _ => Sandbox::None,
        }
    }

    /// True if the user said that this effect needs no sandbox.
    pub fn is_unsandboxed(&self, effect: Effect) -> bool {
        self.unsandboxed.contains(&effect)
    }

    /// True if nothing may run without a full sandbox.
    pub fn requires_sandbox(&self) -> bool {
        self.require_sandbox
    }

    /// Decides on `effect`. `can_ask` is true if a user will answer.
    pub fn decide(&self, effect: Effect, can_ask: bool) -> Decision {
        match self.decision(effect) {
            Decision::Ask if !(can_ask && self.may_ask(effect)) => Decision::Deny,
            decision => decision,
        }
    }

    /// Decides on `effect` in a tainted conversation: an effect that reaches further than the repository's files then
    /// needs a yes of its own, whatever was allowed before.
    pub fn decide_tainted(&self, effect: Effect, can_ask: bool) -> Decision {
        let can_ask = can_ask && self.may_ask(effect);
        match (self.decision(effect), self.tainted(effect)) {
            (Decision::Deny, _) | (_, Some(Decision::Deny)) => Decision::Deny,
            (_, Some(decision)) => decision,
            (Decision::Allow, None) if !effect.reaches_further() => Decision::Allow,
            (Decision::Allow | Decision::Ask, None) if can_ask => Decision::Ask,
            (Decision::Allow | Decision::Ask, None) => Decision::Deny,
        }
    }

    /// Advice to the user about a denial that does not come from the repository. `--deny` wins over `--allow`, and
    /// `--allow` wins over the configuration.
    pub fn remedy(&self, effect: Effect, is_tainted: bool) -> String {
        let (grant, again) = if is_tainted && effect.reaches_further() {
            (format!("{effect}:tainted"), " all the same")
        } else {
            (effect.to_string(), "")
        };
        let is_by_name = self.is_denied(effect, is_tainted);
        if is_by_name && self.place_of_grants == GrantPlace::Configuration {
            "it is denied by name: `deny` below `[policy]` in config.toml goes before every grant".to_owned()
        } else if is_by_name && self.place_of_grants == GrantPlace::Request {
            "it is denied by name: `deny` goes before `allow` in a request, and its `allow` before `deny` in config.toml"
                .to_owned()
        } else if is_by_name {
            format!(
                "it is denied by name: `--deny` goes before `--allow`, and `--allow {grant}` before `deny` in the configuration"
            )
        } else {
            let how = match self.place_of_grants {
                GrantPlace::Configuration => format!("`allow = [\"{grant}\"]` below `[policy]` in config.toml"),
                _ => self.grant_text(&PolicyRequest::allowing_effect(&grant)),
            };
            format!("the user can grant it{again} with {how}")
        }
    }

    /// True if the repository is not trusted: its conversations are tainted from the start.
    pub fn is_untrusted(&self) -> bool {
        self.is_untrusted
    }

    /// True if strangers may have written the task.
    pub fn is_task_untrusted(&self) -> bool {
        self.is_task_untrusted
    }

    /// Files that a granted `write-repository` covers. No flag widens this.
    pub fn writes(&self) -> WriteScope {
        self.writes
    }

    /// Protected paths that may still be proposed, exact and relative to the root, and names of new dot folders.
    pub fn allow_paths(&self) -> &[String] {
        &self.allow_paths
    }
}

/// Formats a grant as flags of a command.
fn format_flags(grant: &PolicyRequest) -> String {
    let allow = grant.allow.iter().map(|effect| format!("--allow {effect}"));
    let paths = grant.allow_paths.iter().map(|path| {
        // A value that begins with a hyphen would be read as a flag.
        let between = if path.starts_with('-') { '=' } else { ' ' };
        format!("--allow-path{between}{path}")
    });
    let unsandboxed = grant.unsandboxed.then(|| "--unsandboxed".to_owned());
    allow.chain(paths).chain(unsandboxed).collect::<Vec<_>>().join(" ")
}

fn parse_grants(names: &[String]) -> Result<Vec<Grant>, Problem> {
    names.iter().map(|name| name.parse()).collect()
}

/// Effects that run programs.
const CONTAINED: [Effect; 2] = [Effect::RunProcess, Effect::Install];

/// Selects the allowed effects that run programs.
fn select_unsandboxed(allow: &[String], require_sandbox: bool) -> Result<Vec<Effect>, Problem> {
    if require_sandbox {
        let message = "A sandbox is required and refused at the same time";
        return Err(Problem::new(ErrorKind::InvalidPolicy, message).with_hint(
            "leave out `--unsandboxed`, or `--require-sandbox` and `require_sandbox` in the configuration",
        ));
    }
    let allowed: Vec<Effect> = parse_grants(allow)?.into_iter().map(Grant::effect).collect();
    let effects: Vec<Effect> = CONTAINED
        .into_iter()
        .filter(|effect| allowed.contains(effect))
        .collect();
    if effects.is_empty() {
        Err(Problem::new(ErrorKind::InvalidPolicy, "`--unsandboxed` alone grants nothing").with_hint(
            "add `--allow run-process` to run tests, or `--allow install` to install packages, with your own rights; \
             `allow` in the configuration does not count here",
        ))
    } else {
        Ok(effects)
    }
}

fn sandbox_missing(available: &AvailableSandbox) -> Problem {
    let why = available.refused.join("; ");
    Problem::new(
        ErrorKind::SandboxUnavailable,
        format!("A full sandbox is required, and this machine does not allow one: {why}"),
    )
    .with_hint("`--deny run-process` goes on without running tests")
}

/// Default decisions without a sandbox. Effects of a team's skills, such as a connection, are granted when the skill is
/// added, so they need no question here.
fn default(cause: EffectCause, effect: Effect) -> Decision {
    let changes = matches!(cause, EffectCause::Operation(Operation::Refactor | Operation::TestGen));
    match effect {
        Effect::ReadRepository | Effect::ReadGit => Decision::Allow,
        Effect::Http(_) | Effect::Config | Effect::Secret(_) | Effect::Store => Decision::Allow,
        Effect::WriteRepository if changes => Decision::Allow,
        Effect::RunProcess | Effect::CommitGit | Effect::Install | Effect::HttpWrite(_) if changes => Decision::Ask,
        Effect::WriteRepository | Effect::RunProcess | Effect::CommitGit | Effect::Install | Effect::HttpWrite(_) => {
            Decision::Deny
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(cause: EffectCause, request: &PolicyRequest, can_ask: bool) -> Vec<Decision> {
        let policy = Policy::new(cause, request).expect("the request is valid");
        Effect::PLAIN.map(|effect| policy.decide(effect, can_ask)).into()
    }

    #[test]
    fn operations_that_read_may_only_read() {
        use Decision::{Allow, Deny};
        for cause in [
            EffectCause::Operation(Operation::Explain),
            EffectCause::Operation(Operation::Architect),
            EffectCause::SkillCall,
        ] {
            let expected = [Allow, Deny, Allow, Deny, Deny, Deny, Allow, Allow];
            assert_eq!(table(cause, &PolicyRequest::default(), true), expected, "{cause:?}");
        }
    }

    #[test]
    fn a_denial_says_what_grants_the_effect_all_the_same() {
        let remedy = |deny: &[&str], effect, is_tainted| {
            let deny = deny.iter().map(|name| (*name).to_owned()).collect();
            let request = PolicyRequest {
                deny,
                ..PolicyRequest::default()
            };
            let policy = Policy::new(EffectCause::SkillCall, &request).expect("the request is valid");
            policy.remedy(effect, is_tainted)
        };
        let plain = "the user can grant it with `--allow commit-git`";
        let tainted = "the user can grant it all the same with `--allow commit-git:tainted`";
        assert_eq!(remedy(&[], Effect::CommitGit, false), plain);
        assert_eq!(remedy(&[], Effect::CommitGit, true), tainted);
        assert_eq!(remedy(&["commit-git:tainted"], Effect::CommitGit, false), plain);
        assert_eq!(
            remedy(&[], Effect::WriteRepository, true),
            "the user can grant it with `--allow write-repository`",
            "there is no other name for it"
        );
        for (deny, is_tainted, grant) in [
            ("commit-git", false, "commit-git`"),
            ("commit-git", true, "commit-git:tainted`"),
            ("commit-git:tainted", true, "commit-git:tainted`"),
        ] {
            let said = remedy(&[deny], Effect::CommitGit, is_tainted);
            assert!(
                said.starts_with("it is denied by name") && said.contains(&format!("`--allow {grant}")),
                "{said}"
            );
        }
    }

    #[test]
    fn a_grant_is_told_as_the_client_of_the_session_can_give_it() {
        let policy = |place| {
            let policy = Policy::new(EffectCause::SkillCall, &PolicyRequest::default()).expect("the defaults");
            policy.granted_in(place)
        };
        let install = PolicyRequest {
            unsandboxed: true,
            ..PolicyRequest::allowing_effect("install")
        };
        let path = PolicyRequest::allowing_path("-a \"b\".py");
        let told = |place| {
            let policy = policy(place);
            let denied = policy.remedy(Effect::CommitGit, true);
            [policy.grant_text(&install), policy.grant_text(&path), denied].join("\n")
        };
        insta::assert_snapshot!(told(GrantPlace::Flags), @r#"
        `--allow install --unsandboxed`
        `--allow-path=-a "b".py`
        the user can grant it all the same with `--allow commit-git:tainted`
        "#);
        insta::assert_snapshot!(told(GrantPlace::Request), @r#"
        `"policy": {"allow":["install"],"unsandboxed":true}` in the request
        `"policy": {"allow_paths":["-a \"b\".py"]}` in the request
        the user can grant it all the same with `"policy": {"allow":["commit-git:tainted"]}` in the request
        "#);
        insta::assert_snapshot!(told(GrantPlace::AgentEntry), @r#"
        `--allow install --unsandboxed` in the arguments of `tool mcp`
        `--allow-path=-a "b".py` in the arguments of `tool mcp`
        the user can grant it all the same with `--allow commit-git:tainted` in the arguments of `tool mcp`
        "#);
        insta::assert_snapshot!(told(GrantPlace::Configuration), @r#"
        `tool mcp --allow install --unsandboxed` in place of HTTP
        `tool mcp --allow-path=-a "b".py` in place of HTTP
        the user can grant it all the same with `allow = ["commit-git:tainted"]` below `[policy]` in config.toml
        "#);
        for place in [GrantPlace::Request, GrantPlace::Configuration] {
            assert!(!policy(place).required_sandbox_text().contains("--"));
        }
    }

    #[test]
    fn operations_that_change_ask_and_nobody_to_ask_means_denied() {
        use Decision::{Allow, Ask, Deny};
        let cause = EffectCause::Operation(Operation::Refactor);
        assert_eq!(
            table(cause, &PolicyRequest::default(), true),
            [Allow, Allow, Allow, Ask, Ask, Ask, Allow, Allow]
        );
        assert_eq!(
            table(cause, &PolicyRequest::default(), false),
            [Allow, Allow, Allow, Deny, Deny, Deny, Allow, Allow]
        );
    }

    #[test]
    fn a_connection_that_was_granted_is_allowed_everywhere_and_its_writing_is_asked_about() {
        use Decision::{Allow, Ask, Deny};
        let effect = |text: &str| text.parse::<Effect>().expect("it is one");
        let (read, write) = (effect("http:api.example.org"), effect("http-write:api.example.org"));
        let decided = |cause, allow: &[&str], deny: &[&str], effect| {
            let list = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
            let request = PolicyRequest {
                allow: list(allow),
                deny: list(deny),
                ..PolicyRequest::default()
            };
            let policy = Policy::new(cause, &request).expect("the request is valid");
            (policy.decide(effect, true), policy.decide(effect, false))
        };
        let explain = EffectCause::Operation(Operation::Explain);
        let refactor = EffectCause::Operation(Operation::Refactor);
        for cause in [explain, refactor, EffectCause::SkillCall] {
            assert_eq!(decided(cause, &[], &[], read), (Allow, Allow), "{cause:?}");
            assert_eq!(decided(cause, &[], &[], effect("secret:token")), (Allow, Allow));
            assert_eq!(decided(cause, &[], &["http:*"], read), (Deny, Deny));
            assert_eq!(decided(cause, &[], &["http:other.org"], read), (Allow, Allow));
        }
        assert_eq!(decided(refactor, &[], &[], write), (Ask, Deny));
        assert_eq!(decided(explain, &[], &[], write), (Deny, Deny));
        assert_eq!(decided(EffectCause::SkillCall, &[], &[], write), (Deny, Deny));
        let allowed = decided(EffectCause::SkillCall, &["http-write:api.example.org"], &[], write);
        assert_eq!(allowed, (Allow, Allow));
        assert_eq!(decided(explain, &["http-write:other.org"], &[], write), (Deny, Deny));
    }

    #[test]
    fn an_effect_that_a_client_names_is_asked_about_in_place_of_a_denial_and_of_nothing_else() {
        use Decision::{Allow, Ask, Deny};
        let list = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let policy = |cause, ask: &[&str], is_interactive, deny: &[&str]| {
            let request = PolicyRequest {
                deny: list(deny),
                ..PolicyRequest::default()
            };
            Policy::new(cause, &request)
                .and_then(|policy| policy.asking(&list(ask), is_interactive))
                .expect("the request is right")
        };
        let (explain, refactor) = (Operation::Explain, Operation::Refactor);
        let (commit, write, install) = (Effect::CommitGit, Effect::WriteRepository, Effect::Install);
        let decided = |operation, ask: &[&str], is_interactive, deny: &[&str], effect| {
            let policy = policy(EffectCause::Operation(operation), ask, is_interactive, deny);
            (policy.decide(effect, true), policy.decide_tainted(effect, true))
        };
        let both = ["commit-git", "write-repository"];
        for is_interactive in [false, true] {
            for effect in [commit, write] {
                assert_eq!(decided(explain, &both, is_interactive, &[], effect), (Ask, Ask));
                assert_eq!(decided(explain, &[], is_interactive, &[], effect), (Deny, Deny));
            }
            assert_eq!(decided(explain, &both, is_interactive, &[], install), (Deny, Deny));
            assert_eq!(
                decided(refactor, &both, is_interactive, &[], write),
                (Allow, Allow),
                "it is allowed"
            );
            assert_eq!(
                decided(explain, &both, is_interactive, &["commit-git"], commit),
                (Deny, Deny)
            );
            assert_eq!(
                decided(explain, &both, is_interactive, &["commit-git:tainted"], commit),
                (Ask, Deny)
            );
        }
        // Of a client that is not interactive nothing else is asked.
        assert_eq!(decided(refactor, &["commit-git"], false, &[], install), (Deny, Deny));
        assert_eq!(decided(refactor, &["commit-git"], true, &[], install), (Ask, Ask));
        let alone = policy(EffectCause::Operation(explain), &["commit-git"], false, &[]);
        assert!(alone.may_ask(commit) && !alone.may_ask(Effect::ReadGit));
        let write_to: Effect = "http-write:api.example.org".parse().expect("it is one");
        assert_eq!(decided(explain, &["http-write:*"], false, &[], write_to), (Ask, Ask));
        assert_eq!(
            decided(explain, &["http-write:other.org"], false, &[], write_to),
            (Deny, Deny)
        );
        assert_eq!(
            policy(EffectCause::Operation(explain), &both, true, &[]).decide(commit, false),
            Deny
        );
        for (name, message) in [
            (
                "read-git",
                "`ask` cannot name `read-git`: it changes nothing, and is not asked about",
            ),
            ("commit", "Unknown effect `commit`"),
        ] {
            let policy = Policy::new(EffectCause::Operation(explain), &PolicyRequest::default()).expect("the defaults");
            let problem = policy.asking(&list(&[name]), false).expect_err("it is none");
            assert_eq!(
                (problem.kind, problem.message.as_str()),
                (ErrorKind::InvalidPolicy, message)
            );
        }
    }

    fn machine(sandbox: Sandbox) -> &'static AvailableSandbox {
        Box::leak(Box::new(AvailableSandbox {
            sandbox,
            refused: vec!["namespaces: entering new namespaces: Operation not permitted".to_owned()],
        }))
    }

    #[test]
    fn a_machine_is_not_tried_out_for_what_runs_nothing() {
        let request = PolicyRequest::default();
        for cause in [EffectCause::Operation(Operation::Explain), EffectCause::SkillCall] {
            let policy = Policy::new(cause, &request).expect("the request is right");
            let policy = policy.contained(|| panic!("it was tried out"));
            assert_eq!(
                policy.map(|policy| policy.decide(Effect::RunProcess, true)),
                Ok(Decision::Deny)
            );
        }
    }

    #[test]
    fn in_a_sandbox_operations_that_change_run_tests_unasked() {
        use Decision::{Allow, Ask, Deny};
        let request = PolicyRequest::default();
        let decided = |cause, sandbox, can_ask| {
            let policy = Policy::new(cause, &request).and_then(|policy| policy.contained(|| machine(sandbox)));
            policy
                .expect("the request is valid")
                .decide(Effect::RunProcess, can_ask)
        };
        for operation in [Operation::Refactor, Operation::TestGen] {
            let cause = EffectCause::Operation(operation);
            for sandbox in [Sandbox::Namespaces, Sandbox::Landlock] {
                assert_eq!(decided(cause, sandbox, true), Allow);
                assert_eq!(decided(cause, sandbox, false), Allow, "headless as well");
            }
            assert_eq!(decided(cause, Sandbox::None, true), Ask);
            assert_eq!(decided(cause, Sandbox::None, false), Deny);
        }
        for cause in [
            EffectCause::Operation(Operation::Explain),
            EffectCause::Operation(Operation::Architect),
            EffectCause::SkillCall,
        ] {
            assert_eq!(decided(cause, Sandbox::Namespaces, true), Deny, "{cause:?}");
        }
    }

    #[test]
    fn a_sandbox_widens_nothing_but_running_tests_and_no_denial() {
        use Decision::{Allow, Ask, Deny};
        let request = PolicyRequest {
            deny: vec!["run-process".into()],
            ..PolicyRequest::default()
        };
        let all = |request: &PolicyRequest| {
            let policy = Policy::new(EffectCause::Operation(Operation::Refactor), request)
                .and_then(|policy| policy.contained(|| machine(Sandbox::Namespaces)))
                .expect("the request is valid");
            Effect::PLAIN.map(|effect| policy.decide(effect, true))
        };
        assert_eq!(all(&request), [Allow, Allow, Allow, Ask, Deny, Ask, Allow, Allow]);
        assert_eq!(
            all(&PolicyRequest::default()),
            [Allow, Allow, Allow, Ask, Allow, Ask, Allow, Allow]
        );
    }

    #[test]
    fn a_required_sandbox_is_the_full_one_or_an_error() {
        let request = PolicyRequest {
            require_sandbox: true,
            ..PolicyRequest::default()
        };
        let on = |cause, sandbox| {
            Policy::new(cause, &request)
                .and_then(|policy| policy.contained(|| machine(sandbox)))
                .map_err(|problem| (problem.kind, problem.message))
        };
        let refactor = EffectCause::Operation(Operation::Refactor);
        assert!(on(refactor, Sandbox::Namespaces).is_ok_and(|policy| policy.requires_sandbox()));
        for sandbox in [Sandbox::Landlock, Sandbox::None] {
            let (kind, message) = on(refactor, sandbox).expect_err("it is less than was asked for");
            assert_eq!(kind, ErrorKind::SandboxUnavailable);
            assert!(
                message.ends_with("entering new namespaces: Operation not permitted"),
                "{message}"
            );
            assert!(
                on(EffectCause::Operation(Operation::Explain), sandbox).is_ok(),
                "it runs nothing"
            );
        }
    }

    #[test]
    fn an_installation_has_the_full_sandbox_or_none_and_is_never_allowed_by_having_one() {
        let with = |allow: &[&str], unsandboxed, sandbox| {
            let request = PolicyRequest {
                allow: allow.iter().map(|effect| (*effect).to_owned()).collect(),
                unsandboxed,
                ..PolicyRequest::default()
            };
            let policy = Policy::new(EffectCause::Operation(Operation::Refactor), &request)
                .and_then(|policy| policy.unsandboxed_by(&request))
                .and_then(|policy| policy.contained(|| machine(sandbox)))
                .expect("the request is right");
            let (install, run) = (Effect::Install, Effect::RunProcess);
            (
                policy.sandbox(install),
                policy.decide(install, true),
                policy.sandbox(run),
            )
        };
        use Decision::{Allow, Ask};
        use Sandbox::{Landlock, Namespaces, None};
        assert_eq!(with(&[], false, Namespaces), (Namespaces, Ask, Namespaces));
        assert_eq!(with(&["install"], false, Namespaces), (Namespaces, Allow, Namespaces));
        assert_eq!(with(&["install"], false, Landlock), (None, Allow, Landlock));
        assert_eq!(with(&["install"], true, Namespaces), (None, Allow, Namespaces));
        assert_eq!(with(&["run-process"], true, Namespaces), (Namespaces, Ask, None));
    }

    #[test]
    fn to_run_without_a_sandbox_takes_two_words_of_the_user() {
        let request = |allow: &[&str], require_sandbox| PolicyRequest {
            allow: allow.iter().map(|effect| (*effect).to_owned()).collect(),
            require_sandbox,
            unsandboxed: true,
            ..PolicyRequest::default()
        };
        let policy = |request: &PolicyRequest| {
            Policy::new(EffectCause::SkillCall, request)
                .and_then(|policy| policy.unsandboxed_by(request))
                .and_then(|policy| policy.contained(|| machine(Sandbox::Namespaces)))
                .map_err(|problem| problem.message)
        };
        let granted = policy(&request(&["run-process"], false)).expect("both were said");
        assert_eq!(
            (
                granted.sandbox(Effect::RunProcess),
                granted.decide(Effect::RunProcess, false)
            ),
            (Sandbox::None, Decision::Allow)
        );
        assert_eq!(
            policy(&request(&[], false)).expect_err("one is missing"),
            "`--unsandboxed` alone grants nothing"
        );
        assert_eq!(
            policy(&request(&["run-process"], true)).expect_err("they contradict each other"),
            "A sandbox is required and refused at the same time"
        );
    }

    #[test]
    fn what_the_configuration_allows_is_not_said_of_running_without_a_sandbox() {
        let asked = PolicyRequest {
            unsandboxed: true,
            ..PolicyRequest::default()
        };
        // As the configuration and the request come together.
        let all = PolicyRequest {
            allow: vec!["run-process".into(), "install".into()],
            ..asked.clone()
        };
        let policy = || Policy::new(EffectCause::SkillCall, &all).expect("the effects are known");
        let problem = policy().unsandboxed_by(&asked).expect_err("the request names none");
        assert_eq!(problem.message, "`--unsandboxed` alone grants nothing");
        let asked = PolicyRequest {
            allow: vec!["run-process".into()],
            ..asked
        };
        let policy = policy().unsandboxed_by(&asked).expect("it names one");
        assert!(policy.is_unsandboxed(Effect::RunProcess) && !policy.is_unsandboxed(Effect::Install));
    }

    #[test]
    fn flags_widen_and_narrow_and_deny_wins() {
        let request = PolicyRequest {
            allow: vec!["run-process".into(), "install".into()],
            deny: vec!["install".into(), "read-git".into()],
            ..PolicyRequest::default()
        };
        let policy = Policy::new(EffectCause::SkillCall, &request).expect("the request is valid");
        assert_eq!(policy.decide(Effect::RunProcess, false), Decision::Allow);
        assert_eq!(policy.decide(Effect::Install, true), Decision::Deny);
        assert_eq!(policy.decide(Effect::ReadGit, true), Decision::Deny);
    }

    #[test]
    fn generating_tests_changes_only_what_it_created_whatever_the_flags() {
        let request = PolicyRequest {
            allow: vec!["write-repository".into()],
            ..PolicyRequest::default()
        };
        let writes = |cause| Policy::new(cause, &request).expect("the request is valid").writes();
        assert_eq!(
            writes(EffectCause::Operation(Operation::TestGen)),
            WriteScope::OnlyCreated
        );
        assert_eq!(writes(EffectCause::Operation(Operation::Refactor)), WriteScope::Any);
        assert_eq!(writes(EffectCause::SkillCall), WriteScope::Any);
    }

    #[test]
    fn a_tainted_conversation_needs_a_fresh_yes_for_what_reaches_further() {
        use Decision::{Allow, Ask, Deny};
        let decided = |allow: &[&str], deny: &[&str], effect, can_ask| {
            let list = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
            let request = PolicyRequest {
                allow: list(allow),
                deny: list(deny),
                ..PolicyRequest::default()
            };
            let policy =
                Policy::new(EffectCause::Operation(Operation::Refactor), &request).expect("the request is valid");
            (policy.decide(effect, can_ask), policy.decide_tainted(effect, can_ask))
        };
        let write: Effect = "http-write:api.example.org".parse().expect("it is one");
        for effect in [Effect::CommitGit, Effect::Install, write] {
            let name = &*effect.to_string();
            let tainted = format!("{name}:tainted");
            assert_eq!(decided(&[], &[], effect, true), (Ask, Ask));
            assert_eq!(decided(&[], &[], effect, false), (Deny, Deny));
            assert_eq!(decided(&[name], &[], effect, true), (Allow, Ask), "a fresh yes");
            assert_eq!(decided(&[name], &[], effect, false), (Allow, Deny), "nobody to give it");
            assert_eq!(decided(&[&tainted], &[], effect, false), (Allow, Allow));
            assert_eq!(
                decided(&[&tainted], &[name], effect, true),
                (Deny, Deny),
                "a denial wins"
            );
            assert_eq!(decided(&[name], &[&tainted], effect, true), (Allow, Deny));
            assert_eq!(decided(&[&tainted], &[&tainted], effect, true), (Allow, Deny));
            assert_eq!(decided(&[], &[&tainted], effect, true), (Ask, Deny));
        }
        let read: Effect = "http:api.example.org".parse().expect("it is one");
        for effect in [
            Effect::ReadRepository,
            Effect::ReadGit,
            Effect::WriteRepository,
            read,
            Effect::Store,
        ] {
            assert_eq!(decided(&[], &[], effect, false), (Allow, Allow), "{effect}");
        }
        assert_eq!(
            decided(&["run-process"], &[], Effect::RunProcess, false),
            (Allow, Allow)
        );
    }

    #[test]
    fn only_what_reaches_further_knows_the_word_tainted() {
        for name in [
            "write-repository:tainted",
            "read-git:tainted",
            "commit-git:",
            "commit-git:Tainted",
            ":tainted",
        ] {
            let problem = name.parse::<Grant>().expect_err("it means nothing");
            assert_eq!(problem.message, format!("Unknown effect `{name}`"));
        }
    }

    #[test]
    fn an_unknown_effect_is_an_error_that_lists_the_known_ones() {
        let request = PolicyRequest {
            allow: vec!["root".into()],
            ..PolicyRequest::default()
        };
        let problem = Policy::new(EffectCause::SkillCall, &request).expect_err("`root` is no effect");
        assert_eq!(problem.message, "Unknown effect `root`");
        assert!(problem.hint.is_some_and(|hint| hint.contains("run-process")));
    }
}
