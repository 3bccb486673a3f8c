//! The CI system of a job, and whether strangers may have made the change that it checks: both from environment
//! variables.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use tool_config::Environment;
use tool_core::api::{ErrorKind, Problem};

use crate::args::CiHost;
use crate::error::Error;

/// Largest event that is read. GitHub cuts the payload of an event at 25 MB.
const EVENT_BYTES_MAX: u64 = 32 * 1024 * 1024;

#[derive(Debug)]
pub(super) struct Pipeline {
    pub(super) host: CiHost,
    /// Why the checked-out change is not trusted, as the end of a sentence; absent for a trusted change.
    pub(super) distrust: Option<&'static str>,
    /// Folder of the checkout. The system's paths are relative to it.
    workspace: Option<PathBuf>,
}

impl Pipeline {
    /// Detects the system and its event. Refuses an event that gives a stranger's change the rights of the project.
    pub(super) fn detect_system(chosen: Option<CiHost>, environment: &Environment) -> Result<Self, Error> {
        let host = chosen.unwrap_or_else(|| detect_host(environment));
        // `--host` only chooses the reports: the variables of every system decide whether a change is trusted.
        let distrust = github_distrust(environment)?
            .or_else(|| gitlab_distrust(environment))
            .or_else(|| other_distrust(environment));
        let workspace = match host {
            CiHost::Github => environment.get("GITHUB_WORKSPACE"),
            CiHost::Gitlab => environment.get("CI_PROJECT_DIR"),
            CiHost::Buildkite | CiHost::Jenkins | CiHost::Other => None,
        };
        Ok(Self {
            host,
            distrust,
            workspace: workspace.map(PathBuf::from),
        })
    }

    /// Converts a path from the repository's root to one from the workspace: the repository may be below the workspace.
    pub(super) fn workspace_path(&self, root: &Path, path: &str) -> String {
        let workspace = self.workspace.as_ref().and_then(|place| place.canonicalize().ok());
        let below = workspace.and_then(|workspace| Some(root.strip_prefix(workspace).ok()?.to_owned()));
        match below {
            Some(below) if !below.as_os_str().is_empty() => format!("{}/{path}", below.display()),
            _ => path.to_owned(),
        }
    }
}

const OF_A_FORK: &str = "it comes from a fork";
const OF_ANYBODY: &str = "strangers can cause this event";

fn detect_host(environment: &Environment) -> CiHost {
    let is_set = |name: &str| environment.get(name).is_some();
    let hosts = [
        ("GITHUB_ACTIONS", CiHost::Github),
        ("GITLAB_CI", CiHost::Gitlab),
        ("BUILDKITE", CiHost::Buildkite),
        ("JENKINS_URL", CiHost::Jenkins),
    ];
    hosts
        .into_iter()
        .find(|(name, _)| is_set(name))
        .map_or(CiHost::Other, |(_, host)| host)
}

/// Events of GitHub that only people with write access cause. `repository_dispatch` is not one: bots forward words of
/// others with it.
const GITHUB_TRUSTED: [&str; 5] = ["push", "schedule", "workflow_dispatch", "release", "merge_group"];

/// Sources of GitLab's pipelines that need the rights of a developer. Not `trigger`, `pipeline` and `parent_pipeline`, which
/// do not say what caused the other pipeline.
const GITLAB_TRUSTED: [&str; 5] = ["push", "schedule", "web", "api", "webide"];

/// Other systems: a variable that the system always sets, the variable with the event, and the trusted events. A webhook of
/// Buildkite is a push or a pull request; `trigger_job` and `BuildCompletion` do not say what caused the other build. Drone
/// and Woodpecker do not say whether a pull request comes from a fork.
const OTHER_TRUSTED: [(&str, &str, &[&str]); 5] = [
    ("BUILDKITE", "BUILDKITE_SOURCE", &["webhook", "schedule", "ui", "api"]),
    (
        "TF_BUILD",
        "BUILD_REASON",
        &["Manual", "IndividualCI", "BatchedCI", "Schedule", "PullRequest"],
    ),
    ("TRAVIS", "TRAVIS_EVENT_TYPE", &["push", "pull_request", "api", "cron"]),
    (
        "DRONE",
        "DRONE_BUILD_EVENT",
        &["push", "tag", "cron", "promote", "rollback"],
    ),
    (
        "CI_SYSTEM_NAME",
        "CI_PIPELINE_EVENT",
        &["push", "tag", "release", "manual", "cron", "deployment"],
    ),
];

/// Variables that Jenkins and CircleCI set only for a change from a fork.
const FORK_VARIABLES: [&str; 3] = ["CHANGE_FORK", "CIRCLE_PR_USERNAME", "CIRCLE_PR_REPONAME"];

/// The repository of a pull request, and the one that the job belongs to.
const REPOSITORY_PAIRS: [(&str, &str); 4] = [
    ("BUILDKITE_PULL_REQUEST_REPO", "BUILDKITE_REPO"),
    ("TRAVIS_PULL_REQUEST_SLUG", "TRAVIS_REPO_SLUG"),
    ("APPVEYOR_PULL_REQUEST_HEAD_REPO_NAME", "APPVEYOR_REPO_NAME"),
    ("SEMAPHORE_GIT_PR_SLUG", "SEMAPHORE_GIT_REPO_SLUG"),
];

/// The origin decides about a pull request, [`GITHUB_TRUSTED`] about any other event.
fn github_distrust(environment: &Environment) -> Result<Option<&'static str>, Error> {
    Ok(match environment.get("GITHUB_EVENT_NAME") {
        Some("pull_request_target") => {
            let message = "`pull_request_target` gives a stranger's change the secrets of this repository";
            let hint = "run the job on `pull_request`; a change from a fork then gets no secrets and is not trusted";
            return Err(Problem::new(ErrorKind::Usage, message).with_hint(hint).into());
        }
        Some("pull_request") => match environment.get("GITHUB_EVENT_PATH").and_then(read_pull_request) {
            Some(pull_request) if pull_request.is_of_the_repository() => None,
            Some(_) => Some(OF_A_FORK),
            None => Some("its event cannot be read"),
        },
        event => unless_trusted(event, &GITHUB_TRUSTED),
    })
}

/// The origin decides about a merge request, and about a child pipeline with its variables; [`GITLAB_TRUSTED`] about
/// any other pipeline.
fn gitlab_distrust(environment: &Environment) -> Option<&'static str> {
    let (event, source, target) = (
        environment.get("CI_PIPELINE_SOURCE"),
        environment.get("CI_MERGE_REQUEST_SOURCE_PROJECT_ID"),
        environment.get("CI_MERGE_REQUEST_PROJECT_ID"),
    );
    match (event, source) {
        (None | Some("merge_request_event" | "parent_pipeline"), Some(source)) if target == Some(source) => None,
        (Some("merge_request_event"), _) | (_, Some(_)) => Some(OF_A_FORK),
        (event, None) => unless_trusted(event, &GITLAB_TRUSTED),
    }
}

/// Any other system tells by its variables where a change comes from, or what caused the job.
fn other_distrust(environment: &Environment) -> Option<&'static str> {
    let get = |name: &str| environment.get(name);
    // A repository has an https and an ssh URL. If only their form differs, the change counts as not trusted, which is
    // the safe side.
    let is_from_elsewhere = |(source, own): &(&str, &str)| get(source).is_some() && get(source) != get(own);
    // Azure Pipelines says for each pull request whether it comes from a fork.
    let is_azure_fork = get("SYSTEM_PULLREQUEST_ISFORK").map_or_else(
        || get("TF_BUILD").is_some() && get("BUILD_REASON") == Some("PullRequest"),
        |answer| !answer.eq_ignore_ascii_case("false"),
    );
    let is_of_a_fork = FORK_VARIABLES.iter().any(|name| get(name).is_some())
        || REPOSITORY_PAIRS.iter().any(is_from_elsewhere)
        || is_azure_fork
        || get("CIRCLE_BRANCH").is_some_and(|branch| branch.starts_with("pull/"))
        || get("BUILDKITE_PULL_REQUEST").is_some_and(|number| number != "false")
            && get("BUILDKITE_PULL_REQUEST_REPO").is_none();
    if is_of_a_fork {
        return Some(OF_A_FORK);
    }
    OTHER_TRUSTED
        .iter()
        .filter(|(system, ..)| get(system).is_some())
        .find_map(|(_, event, trusted)| unless_trusted(get(event), trusted))
}

/// Distrusts an event that is not in the list. A job without an event is a shell that sets the system's variables.
fn unless_trusted(event: Option<&str>, trusted: &[&str]) -> Option<&'static str> {
    event
        .is_some_and(|event| !trusted.contains(&event))
        .then_some(OF_ANYBODY)
}

/// The part of an event that tells where a change comes from.
#[derive(Deserialize)]
struct PullRequestEvent {
    pull_request: PullRequest,
}

#[derive(Deserialize)]
struct PullRequest {
    head: PullRequestSide,
    base: PullRequestSide,
}

#[derive(Deserialize)]
struct PullRequestSide {
    /// Null if the fork was deleted.
    repo: Option<EventRepository>,
}

#[derive(Deserialize)]
struct EventRepository {
    id: u64,
}

impl PullRequest {
    fn is_of_the_repository(&self) -> bool {
        let id = |side: &PullRequestSide| side.repo.as_ref().map(|repository| repository.id);
        id(&self.head).is_some() && id(&self.head) == id(&self.base)
    }
}

fn read_pull_request(path: &str) -> Option<PullRequest> {
    let mut text = Vec::new();
    let file = File::open(path).ok()?;
    file.take(EVENT_BYTES_MAX).read_to_end(&mut text).ok()?;
    let event: PullRequestEvent = serde_json::from_slice(&text).ok()?;
    Some(event.pull_request)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(variables: &[(&str, &str)]) -> Environment {
        let owned = variables
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Environment::new(owned.collect())
    }

    fn distrust(variables: &[(&str, &str)]) -> Option<&'static str> {
        let pipeline = Pipeline::detect_system(None, &environment(variables));
        pipeline.expect("the event is allowed").distrust
    }

    #[test]
    fn a_change_from_a_fork_is_not_trusted() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let event = |name: &str, head: &str| {
            let path = folder.path().join(name);
            let text =
                format!(r#"{{"pull_request": {{"head": {{"repo": {head}}}, "base": {{"repo": {{"id": 7}}}}}}}}"#);
            std::fs::write(&path, text).expect("the folder is writable");
            path.display().to_string()
        };
        let (own, fork, gone) = (
            event("own", r#"{"id": 7}"#),
            event("fork", r#"{"id": 8, "full_name": "::add-mask::x"}"#),
            event("gone", "null"),
        );
        let of_github = |name: &str, path: &str| {
            distrust(&[
                ("GITHUB_ACTIONS", "true"),
                ("GITHUB_EVENT_NAME", name),
                ("GITHUB_EVENT_PATH", path),
            ])
        };
        assert_eq!(of_github("push", &fork), None);
        assert_eq!(of_github("pull_request", &own), None);
        assert_eq!(of_github("pull_request", &fork), Some(OF_A_FORK));
        assert_eq!(of_github("pull_request", &gone), Some(OF_A_FORK));
        assert!(of_github("pull_request", "/no/such/file").is_some());
        for event in ["merge_request_event", "parent_pipeline"] {
            let of_gitlab = |source: &str| {
                distrust(&[
                    ("GITLAB_CI", "true"),
                    ("CI_PIPELINE_SOURCE", event),
                    ("CI_MERGE_REQUEST_SOURCE_PROJECT_ID", source),
                    ("CI_MERGE_REQUEST_PROJECT_ID", "1"),
                ])
            };
            assert_eq!((of_gitlab("1"), of_gitlab("2")), (None, Some(OF_A_FORK)), "{event}");
        }
        let of_gitlab = |event: &str| distrust(&[("GITLAB_CI", "true"), ("CI_PIPELINE_SOURCE", event)]);
        assert_eq!(
            (of_gitlab("push"), of_gitlab("merge_request_event")),
            (None, Some(OF_A_FORK))
        );
        let of_buildkite = |number: &str, source: &str| {
            distrust(&[
                ("BUILDKITE", "true"),
                ("BUILDKITE_PULL_REQUEST", number),
                ("BUILDKITE_PULL_REQUEST_REPO", source),
                ("BUILDKITE_REPO", "a"),
            ])
        };
        assert_eq!(of_buildkite("false", ""), None);
        assert_eq!(
            (of_buildkite("3", "a"), of_buildkite("3", "b")),
            (None, Some(OF_A_FORK))
        );
        assert_eq!(distrust(&[("JENKINS_URL", "x"), ("CHANGE_FORK", "y")]), Some(OF_A_FORK));
        let slugs = |source| [("TRAVIS_PULL_REQUEST_SLUG", source), ("TRAVIS_REPO_SLUG", "a/b")];
        for (variables, expected) in [
            (&[("CIRCLE_PR_USERNAME", "mallory")][..], Some(OF_A_FORK)),
            (&[("CIRCLE_PR_REPONAME", "b")], Some(OF_A_FORK)),
            (
                &[
                    ("APPVEYOR_PULL_REQUEST_HEAD_REPO_NAME", "mallory/b"),
                    ("APPVEYOR_REPO_NAME", "a/b"),
                ],
                Some(OF_A_FORK),
            ),
            (
                &[
                    ("SEMAPHORE_GIT_PR_SLUG", "mallory/b"),
                    ("SEMAPHORE_GIT_REPO_SLUG", "a/b"),
                ],
                Some(OF_A_FORK),
            ),
            (
                &[("SEMAPHORE_GIT_PR_SLUG", "a/b"), ("SEMAPHORE_GIT_REPO_SLUG", "a/b")],
                None,
            ),
            (&[("SYSTEM_PULLREQUEST_ISFORK", "True")], Some(OF_A_FORK)),
            (&[("SYSTEM_PULLREQUEST_ISFORK", "False")], None),
            (
                &[("TF_BUILD", "True"), ("BUILD_REASON", "PullRequest")],
                Some(OF_A_FORK),
            ),
            (&[("CIRCLE_BRANCH", "pull/7")], Some(OF_A_FORK)),
            (&[("CIRCLE_BRANCH", "pulley")], None),
            (
                &[("BUILDKITE_PULL_REQUEST_REPO", "b"), ("BUILDKITE_REPO", "a")],
                Some(OF_A_FORK),
            ),
            (
                &[("BUILDKITE_PULL_REQUEST", "3"), ("BUILDKITE_REPO", "a")],
                Some(OF_A_FORK),
            ),
            (&slugs("mallory/b"), Some(OF_A_FORK)),
            (&slugs("a/b"), None),
        ] {
            assert_eq!(distrust(variables), expected, "{variables:?}");
        }
    }

    #[test]
    fn only_events_of_the_projects_own_people_are_trusted() {
        let systems = [
            ("GITHUB_ACTIONS", "GITHUB_EVENT_NAME", &GITHUB_TRUSTED[..]),
            ("GITLAB_CI", "CI_PIPELINE_SOURCE", &GITLAB_TRUSTED),
        ];
        let systems = systems.into_iter().chain(OTHER_TRUSTED);
        // The first eleven were trusted once.
        let others = [
            "issues",
            "discussion",
            "discussion_comment",
            "fork",
            "watch",
            "check_run",
            "check_suite",
            "status",
            "gollum",
            "deployment_status",
            "repository_dispatch",
            "issue_comment",
            "workflow_run",
            "pull_request_review",
            "pull_request_review_comment",
            "trigger",
            "pipeline",
            "parent_pipeline",
            "chat",
            "external",
            "external_pull_request_event",
            "trigger_job",
            "BuildCompletion",
            "ResourceTrigger",
            "pull_request_closed",
            "an event of next year",
            "PUSH",
            "push ",
            "",
        ];
        for (system, variable, trusted) in systems {
            let of = |event: &str| distrust(&[(system, "true"), (variable, event)]);
            for event in trusted.iter().filter(|event| **event != "PullRequest") {
                assert_eq!(of(event), None, "{system} {event}");
            }
            for event in others {
                // An empty variable counts as one that is not set.
                let expected = (!event.is_empty()).then_some(OF_ANYBODY);
                assert_eq!(of(event), expected, "{system} {event}");
            }
            assert_eq!(distrust(&[(system, "true")]), None, "{system} without an event");
        }
        assert_eq!(distrust(&[("JENKINS_URL", "x")]), None);
        assert_eq!(distrust(&[]), None);
    }

    #[test]
    fn an_event_that_gives_strangers_secrets_is_refused() {
        let variables = [("GITHUB_ACTIONS", "true"), ("GITHUB_EVENT_NAME", "pull_request_target")];
        assert!(Pipeline::detect_system(None, &environment(&variables)).is_err());
        assert!(Pipeline::detect_system(Some(CiHost::Other), &environment(&variables)).is_err());
    }

    #[test]
    fn the_choice_of_reports_trusts_no_change() {
        let variables = [("GITHUB_ACTIONS", "true"), ("GITHUB_EVENT_NAME", "issues")];
        for host in [CiHost::Other, CiHost::Gitlab, CiHost::Github] {
            let pipeline = Pipeline::detect_system(Some(host), &environment(&variables)).expect("the event is allowed");
            assert_eq!((pipeline.host, pipeline.distrust), (host, Some(OF_ANYBODY)));
        }
    }
}
