//! Installations with a pip, a uv and an npm that are small scripts.

use super::*;
use crate::imports::packages::names::RECIPE_PACKAGES_MAX;
use crate::imports::recipe::testing::Project;
use tool_boundary::policy::{EffectCause, Policy};

const ALLOWED: &[&str] = &["install"];
const ECHO: &str = "printf '<%s>' \"$@\"; echo";

fn request(recipe: &str, names: &[&str], dev: bool) -> Request {
    Request {
        recipe: recipe.to_owned(),
        names: names.iter().map(|name| (*name).to_owned()).collect(),
        dev,
    }
}

fn said(result: Result<Report, Failure>) -> String {
    match result {
        Ok(report) => panic!("{report:?}"),
        Err(failure) => format!("{}: {}", failure.kind.code(), failure.message),
    }
}

#[test]
fn pip_installs_built_packages_into_the_projects_environment() {
    let project = Project::new();
    project.environment(".venv", "3.12.1", ECHO);
    let report = install_packages(
        &project.context(&[]),
        &request("pip-install", &["httpx[http2]>=0.27", "rich"], false),
    )
    .expect("the user agrees");
    insta::assert_snapshot!(report.output.replace("><", ">\n<"), @r"
    <-I>
    <-m>
    <pip>
    <install>
    <--only-binary>
    <:all:>
    <--no-input>
    <--disable-pip-version-check>
    <-->
    <httpx[http2]>=0.27>
    <rich>
    ");
    let questions = project.user.questions();
    assert_eq!(questions[0].title(), "Install with pip: httpx[http2]>=0.27, rich");
    assert_eq!(questions[0].effect(), Effect::Install);
    insta::assert_snapshot!(project.plain(questions[0].detail()).replace(" -- ", "\n-- "), @r"
    …/root/.venv/bin/python -I -m pip install --only-binary :all: --no-input --disable-pip-version-check
    -- 'httpx[http2]>=0.27' rich

    in …/root, without a sandbox: with your rights, for at most 10 minutes
    into the virtual environment …/root/.venv
    only built packages: nothing of them runs while they are installed
    ");
}

#[test]
fn an_environment_of_uv_is_filled_by_uv() {
    let project = Project::new();
    let venv = project.environment(".venv", "3.12.1", ECHO);
    std::fs::remove_dir_all(venv.join("lib/python3.12/site-packages/pip")).expect("it was there");
    let attempt = || install_packages(&project.context(ALLOWED), &request("pip-install", &["rich"], false));
    assert_eq!(said(attempt()), "unavailable: ModuleNotFoundError: No module named pip");
    project.tool("uv", ECHO);
    let report = attempt().expect("uv is there");
    insta::assert_snapshot!(project.plain(&report.output).replace("><", ">\n<"), @r"
    <pip>
    <install>
    <--no-config>
    <--python>
    <…/root/.venv/bin/python>
    <--only-binary>
    <:all:>
    <-->
    <rich>
    ");
}

#[test]
fn npm_installs_without_scripts_and_in_this_project() {
    let project = Project::new();
    project.tool("npm", &format!("{ECHO}; env | grep '^npm_config' | sort"));
    let attempt = |dev| {
        install_packages(
            &project.context(&[]),
            &request("npm-install", &["@types/node@^20"], dev),
        )
    };
    assert_eq!(
        said(attempt(false)),
        "unavailable: There is no package.json at the repository root."
    );
    project.write("package.json", "{}");
    project.write(".npmrc", "registry=https://evil.example/\n");
    let report = attempt(true).expect("the user agrees");
    insta::assert_snapshot!(project.plain(&report.output), @r"
    <install><--ignore-scripts><--prefix><…/root><--save-dev><--><@types/node@^20>
    npm_config_audit=false
    npm_config_fund=false
    npm_config_git=git
    npm_config_ignore_scripts=true
    npm_config_update_notifier=false
    ");
    insta::assert_snapshot!(project.plain(project.user.questions()[0].detail()), @r"
    …/bin/npm install --ignore-scripts --prefix …/root --save-dev -- '@types/node@^20'

    in …/root, without a sandbox: with your rights, for at most 10 minutes
    no install script runs
    recorded in package.json and package-lock.json
    the repository has an `.npmrc`, which may name another registry
    package.json itself lists nothing else that is not there yet
    and what these packages, workspaces and lock files ask for
    ");
    assert!(
        !attempt(false)
            .expect("the user agrees")
            .command
            .contains(&"--save-dev".to_owned())
    );
}

#[test]
fn wrong_names_and_denials_start_nothing() {
    let project = Project::new();
    let marker = project.outside("marker");
    project.environment(".venv", "3.12.1", &format!("touch '{}'", marker.display()));
    for name in [
        "--index-url=https://evil",
        "git+https://evil/x",
        "./local",
        "evil-1-py3-none-any.whl",
    ] {
        let answer = said(install_packages(
            &project.context(ALLOWED),
            &request("pip-install", &[name], false),
        ));
        assert!(answer.starts_with("invalid-arguments: "), "{answer}");
    }
    let mut context = project.context(&[]);
    context.policy = Policy::new(EffectCause::SkillCall, &tool_core::api::PolicyRequest::default()).expect("valid");
    assert!(said(install_packages(&context, &request("pip-install", &["rich"], false))).starts_with("denied: "));
    assert!(
        said(install_packages(
            &project.context(ALLOWED),
            &request("brew", &["x"], false)
        ))
        .contains("recipe `brew`")
    );
    assert!(!marker.exists());
}

#[test]
fn a_place_that_may_not_be_written_is_named() {
    let project = Project::new();
    let attempt = || {
        said(install_packages(
            &project.context(ALLOWED),
            &request("pip-install", &["rich"], false),
        ))
    };
    let text = "ERROR: Could not install packages due to an OSError: [Errno 13] Permission denied: '/usr/lib/python3'";
    project.machine_python("python3", "3.11", &format!("cat <<'END'\n{text}\nEND\nexit 1"));
    assert_eq!(attempt(), "failed: Permission denied: /usr/lib/python3");
    project.machine_python(
        "python3",
        "3.11",
        "echo 'error: externally-managed-environment'; exit 1",
    );
    assert!(attempt().contains("managed by its own package manager"));
    project.machine_python("python3", "3.11", "echo \"$0: No module named pip\"; exit 1");
    assert_eq!(attempt(), "unavailable: ModuleNotFoundError: No module named pip");

    project.write("package.json", "{}");
    let text = "npm error code EACCES\nnpm error Error: EACCES: permission denied, mkdir '/usr/lib/node_modules'";
    project.tool("npm", &format!("cat <<'END'\n{text}\nEND\nexit 243"));
    let answer = said(install_packages(
        &project.context(ALLOWED),
        &request("npm-install", &["x"], false),
    ));
    assert_eq!(answer, "failed: Permission denied: /usr/lib/node_modules");
}

#[test]
fn whether_a_place_can_be_written_is_seen_beforehand() {
    let project = Project::new();
    assert!(is_writable(&project.root()));
    assert!(is_writable(&project.root().join("not/yet/there")));
    // No user, root included, makes files in here.
    #[cfg(target_os = "linux")]
    assert!(!is_writable(Path::new("/proc/self/fdinfo")) || rustix::process::geteuid().is_root());
}

#[test]
fn an_installer_that_says_no_is_a_report() {
    let project = Project::new();
    project.environment(
        ".venv",
        "3.12.1",
        "echo 'ERROR: No matching distribution found for nosuch'; exit 1",
    );
    let report =
        install_packages(&project.context(ALLOWED), &request("pip-install", &["nosuch"], false)).expect("it ran");
    assert_eq!(report.exit_code, Some(1));
}

/// `RECIPE_PACKAGES_MAX`, and with it `RECIPE_PACKAGE_BYTES_MAX` (see `names`).
#[test]
fn more_packages_than_a_call_takes_are_refused() {
    let project = Project::new();
    let names = vec!["x"; RECIPE_PACKAGES_MAX + 1];
    let answer = said(install_packages(
        &project.context(ALLOWED),
        &request("pip-install", &names, false),
    ));
    assert_eq!(answer, "limit: More than 50 packages in one call.");
}

/// `INSTALL_SECONDS_MAX`, with a shorter time.
#[test]
fn an_installer_that_does_not_end_is_ended() {
    let project = Project::new();
    project.tool("npm", "echo started; sleep 600");
    let context = project.context(ALLOWED);
    let command = recipe::repository_command(
        &project.root(),
        project.outside("bin/npm"),
        Vec::new(),
        context.environment.clone(),
    );
    let plan = InstallPlan {
        recipe: PreparedRun {
            effect: Effect::Install,
            title: String::new(),
            notes: Vec::new(),
            command,
            time: Duration::from_millis(400),
            tools: ToolAccess::default(),
            format: ResultFormat::Exit,
        },
        folder: None,
        manifests: NPM_MANIFESTS,
        beside: None,
    };
    let report = plan.execute(&context, None).expect("it ran");
    assert_eq!((report.timed_out, report.output.as_str()), (true, "started\n"));
}

#[test]
fn what_an_installer_without_a_sandbox_did_to_manifests_is_noted() {
    let project = Project::new();
    project.write("package.json", "{}");
    project.tool("npm", "echo '{\"a\": 1}' > package.json; echo '{}' > package-lock.json");
    let context = project.context(ALLOWED);
    install_packages(&context, &request("npm-install", &["x"], false)).expect("it ran");
    let files = context.files.lock().expect("not poisoned");
    let changed: Vec<&str> = files.changed.keys().map(String::as_str).collect();
    assert_eq!(changed, ["package-lock.json", "package.json"]);
}

#[test]
fn where_there_is_no_sandbox_it_takes_more_than_to_be_allowed_by_name() {
    let project = Project::new();
    let marker = project.outside("marker");
    project.environment(".venv", "3.12.1", &format!("touch '{}'", marker.display()));
    let mut context = project.context(&[]);
    let request_policy = tool_core::api::PolicyRequest {
        allow: vec!["install".into()],
        ..tool_core::api::PolicyRequest::default()
    };
    let cause = EffectCause::Operation(tool_core::api::Operation::Refactor);
    context.policy = Policy::new(cause, &request_policy).expect("valid");
    let answer = said(install_packages(&context, &request("pip-install", &["rich"], false)));
    assert!(
        answer.starts_with("denied: This machine has no sandbox for installations ("),
        "{answer}"
    );
    assert!(!marker.exists());
}

#[test]
fn an_installation_stops_when_its_session_is_cancelled() {
    let project = Project::new();
    let work = project.root().join("work");
    project.environment(
        ".venv",
        "3.12.1",
        &format!("while :; do echo x >> '{}'; sleep 0.01; done", work.display()),
    );
    let context = project.context(ALLOWED);
    let cancel = context.cancel.clone();
    let done = || std::fs::metadata(&work).map_or(0, |file| file.len());
    std::thread::scope(|scope| {
        let run = scope.spawn(|| said(install_packages(&context, &request("pip-install", &["rich"], false))));
        while done() == 0 && !run.is_finished() {
            std::thread::yield_now();
        }
        cancel.cancel();
        assert_eq!(run.join().expect("no panic"), "failed: The call was cancelled.");
    });
    let before = done();
    std::thread::sleep(std::time::Duration::from_millis(100));
    assert!(before > 0 && done() == before, "nothing works on");
}
