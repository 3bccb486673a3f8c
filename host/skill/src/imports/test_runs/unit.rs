//! Test runs with interpreters and an npm that are small scripts.

use std::time::{Duration, Instant};

use super::*;
use crate::imports::recipe::testing::Project;
use tool_boundary::bindings::tool::skill::tests::Report;
use tool_boundary::policy::{EffectCause, Policy};

const ALLOWED: &[&str] = &["run-process"];

fn request(recipe: &str, paths: &[&str], filter: Option<&str>) -> Request {
    Request {
        recipe: Some(recipe.to_owned()),
        check: None,
        paths: paths.iter().map(|path| (*path).to_owned()).collect(),
        filter: filter.map(str::to_owned),
        timeout_seconds: Some(20),
    }
}

/// The report of the one suite that ran.
fn run(context: &CallContext, request: &Request) -> Result<Report, Failure> {
    let suites = super::run_tests(context, request)?;
    assert_eq!(suites.len(), 1, "{suites:?}");
    let suite = suites.into_iter().next().expect("there is one");
    suite.outcome.map(|results| results.report).map_err(Failure::from)
}

fn said(result: Result<Report, Failure>) -> String {
    match result {
        Ok(report) => panic!("{report:?}"),
        Err(failure) => format!("{}: {}", failure.kind.code(), failure.message),
    }
}

#[test]
fn pytest_runs_in_the_projects_environment_with_a_bare_one() {
    let project = Project::new();
    let script = "printf '<%s>' \"$@\"; echo; pwd; env | grep -v '^\\(PWD\\|SHLVL\\|_\\|OLDPWD\\|TOOL_RUN\\)=' | sort; \
                  echo '=== 1 failed, 2 passed in 0.12s ==='; exit 1";
    project.environment(".venv", "3.12.1", script);
    project.write("tests/test_a.py", "");
    let report = run(
        &project.context(ALLOWED),
        &request("pytest", &["./tests//test_a.py::test_b[x y]", "tests/"], Some("a or b")),
    )
    .expect("it runs");
    assert_eq!(
        (report.exit_code, report.timed_out, report.sandbox.as_str()),
        (Some(1), false, "none")
    );
    insta::assert_snapshot!(project.plain(&report.command.join("\n")), @r"
    …/root/.venv/bin/python
    -m
    pytest
    -rfE
    --tb=short
    --color=no
    -p
    no:cacheprovider
    -k
    a or b
    tests/test_a.py::test_b[x y]
    tests
    ");
    insta::assert_snapshot!(project.plain(&report.output), @r"
    <-m><pytest><-rfE><--tb=short><--color=no><-p><no:cacheprovider><-k><a or b><tests/test_a.py::test_b[x y]><tests>
    …/root
    COLUMNS=200
    LANG=C.UTF-8
    NO_COLOR=1
    PATH=/usr/bin:/bin
    PYTHONDONTWRITEBYTECODE=1
    PYTHONUNBUFFERED=1
    TERM=dumb
    VIRTUAL_ENV=…/root/.venv
    === 1 failed, 2 passed in 0.12s ===
    ");
    let live = project.live.lock().expect("not poisoned").clone();
    assert_eq!(
        live.last().map(String::as_str),
        Some("=== 1 failed, 2 passed in 0.12s ===")
    );
    assert!(project.user.questions().is_empty(), "it is allowed");
}

#[test]
fn the_user_sees_the_exact_command() {
    let project = Project::new();
    project.environment(".venv", "3.12.1", "echo ran");
    let report = run(&project.context(&[]), &request("pytest", &[], Some("it's"))).expect("the user agrees");
    assert_eq!(report.output, "ran\n");
    let questions = project.user.questions();
    assert_eq!(questions.len(), 1);
    assert_eq!(questions[0].title(), "Run the tests with pytest");
    insta::assert_snapshot!(project.plain(questions[0].detail()), @r"
    …/root/.venv/bin/python -m pytest -rfE --tb=short --color=no -p no:cacheprovider -k 'it'\''s'

    in …/root, without a sandbox: with your rights, for at most 20 seconds
    ");
}

#[test]
fn a_denial_runs_nothing() {
    let project = Project::new();
    let marker = project.outside("marker");
    project.environment(".venv", "3.12.1", &format!("touch '{}'", marker.display()));
    let mut context = project.context(&[]);
    context.policy = Policy::new(EffectCause::SkillCall, &tool_core::api::PolicyRequest::default()).expect("valid");
    assert!(said(run(&context, &request("pytest", &[], None))).starts_with("denied: "));
    assert!(!marker.exists());
}

#[test]
fn a_missing_pytest_and_a_missing_python_have_their_messages() {
    let project = Project::new();
    let none = run(&project.context(ALLOWED), &request("pytest", &[], None));
    insta::assert_snapshot!(said(none), @"unavailable: Python 3.10+ required but not found");
    project.machine_python("python3", "3.11", "echo \"$0: No module named pytest\" >&2; exit 1");
    let failure = run(&project.context(ALLOWED), &request("pytest", &[], None)).expect_err("there is no pytest");
    assert_eq!(failure.message, "ModuleNotFoundError: No module named pytest");
    let hint = project.plain(&failure.hint.unwrap_or_default());
    assert_eq!(
        hint,
        "install it, with install_package or: …/bin/python3 -m pip install pytest"
    );
}

#[test]
fn a_test_that_misses_a_module_is_a_report() {
    let project = Project::new();
    let output = "E   ModuleNotFoundError: No module named 'requests'\n=== 1 error in 0.1s ===";
    project.environment(".venv", "3.12.1", &format!("cat <<'END'\n{output}\nEND\nexit 2"));
    let report = run(&project.context(ALLOWED), &request("pytest", &[], None)).expect("it runs");
    assert_eq!((report.exit_code, report.output), (Some(2), format!("{output}\n")));
}

#[test]
fn paths_and_filters_that_could_mean_something_else_are_refused() {
    let project = Project::new();
    let marker = project.outside("marker");
    project.environment(".venv", "3.12.1", &format!("touch '{}'", marker.display()));
    project.write(".env", "TOKEN=secret");
    project.write("-p", "");
    project.write("package.json", r#"{"scripts": {"test": "jest"}}"#);
    let context = project.context(ALLOWED);
    let paths = [
        "-p",
        "./-p",
        "../x",
        "/etc/passwd",
        "nowhere.py",
        ".env",
        "a\nb",
        "--rootdir=/",
        "x.py::",
    ];
    let refusals = paths.map(|path| said(run(&context, &request("pytest", &[path], None))));
    insta::assert_snapshot!(refusals.join("\n").replace(": it is", ":\n  it is"), @r"
    invalid-arguments: `-p` begins like an option.
    invalid-arguments: `./-p` begins like an option.
    invalid-arguments: `../x` is no path in this repository: it lies outside the repository.
    invalid-arguments: `/etc/passwd` is no path in this repository:
      it is absolute, and paths are relative to the repository root.
    not-found: `nowhere.py` does not exist.
    denied: `.env` is not accessible: it holds environment variables, which are often secrets.
    invalid-arguments: `a\nb` contains a control character.
    invalid-arguments: `--rootdir=/` begins like an option.
    invalid-arguments: `x.py::` is no node id: `path::name` is.
    ");
    let filters = ["-x", "--pdb", "@file", "", "a\u{1b}b"];
    let refusals = filters.map(|filter| said(run(&context, &request("pytest", &[], Some(filter)))));
    insta::assert_snapshot!(refusals.join("\n"), @r"
    invalid-arguments: The filter begins like an option.
    invalid-arguments: The filter begins like an option.
    invalid-arguments: The filter begins like an option.
    invalid-arguments: The filter is empty.
    invalid-arguments: The filter contains a control character.
    ");
    assert!(said(run(&context, &request("npm", &["--config=x"], None))).contains("begins like an option"));
    assert!(said(run(&context, &request("carg", &[], None))).contains("no recipe `carg`"));
    assert!(!marker.exists());
}

#[test]
fn a_path_that_pytest_would_read_arguments_from_is_taken_as_a_path() {
    let project = Project::new();
    project.environment(".venv", "3.12.1", "for last; do :; done; echo \"$last\"");
    project.write("@arguments", "-p evil");
    let report = run(&project.context(ALLOWED), &request("pytest", &["@arguments"], None)).expect("it runs");
    assert_eq!(report.output, "./@arguments\n");
}

#[test]
fn npm_runs_the_script_with_paths_behind_the_dashes() {
    let project = Project::new();
    project.tool(
        "npm",
        "printf '<%s>' \"$@\"; echo; env | grep '^\\(CI\\|NO_COLOR\\|FORCE_COLOR\\|npm_\\)' | sort",
    );
    project.write("package.json", r#"{"scripts": {"test": "vitest run"}}"#);
    project.write("src/a.test.ts", "");
    let report = run(&project.context(&[]), &request("npm", &["src"], Some("adds"))).expect("it runs");
    insta::assert_snapshot!(report.output, @r"
    <test><--><-t><adds><src>
    CI=true
    NO_COLOR=1
    npm_config_audit=false
    npm_config_fund=false
    npm_config_offline=true
    npm_config_update_notifier=false
    ");
    insta::assert_snapshot!(project.plain(project.user.questions()[0].detail()), @r"
    …/bin/npm test -- -t adds src

    in …/root, without a sandbox: with your rights, for at most 20 seconds
    the script `test` in package.json: vitest run
    ");
}

#[test]
fn what_npm_needs_is_asked_for_by_name() {
    let project = Project::new();
    let attempt = || said(run(&project.context(ALLOWED), &request("npm", &[], None)));
    let none = attempt();
    project.write("package.json", "{");
    let broken = attempt();
    project.write("package.json", "{}");
    let scriptless = attempt();
    project.write("package.json", r#"{"scripts": {"test": "jest"}}"#);
    insta::assert_snapshot!([none, broken, scriptless, attempt()].join("\n"), @r"
    unavailable: There is no package.json at the repository root.
    failed: package.json is not valid JSON: EOF while parsing an object at line 1 column 1.
    unavailable: package.json has no `test` script that runs a test.
    unavailable: npm was not found on the PATH.
    ");
}

#[test]
fn the_time_limit_and_cancellation_end_the_run() {
    let project = Project::new();
    project.environment(".venv", "3.12.1", "echo started; sleep 60");
    let mut short = request("pytest", &[], None);
    short.timeout_seconds = Some(1);
    let report = run(&project.context(ALLOWED), &short).expect("it runs");
    assert_eq!(
        (report.exit_code, report.timed_out, report.output.as_str()),
        (None, true, "started\n")
    );

    let context = project.context(ALLOWED);
    let cancel = context.cancel.clone();
    let trigger = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(300));
        cancel.cancel();
    });
    let started = Instant::now();
    assert_eq!(
        said(run(&context, &request("pytest", &[], None))),
        "failed: The call was cancelled."
    );
    assert!(started.elapsed() < Duration::from_secs(60), "{:?}", started.elapsed());
    trigger.join().expect("no panic");
}

#[test]
fn paths_and_filter_of_a_test_run_are_bounded() {
    let project = Project::new();
    let context = project.context(ALLOWED);
    let many = vec!["x.py"; RECIPE_PATHS_MAX + 1];
    let answer = said(run(&context, &request("pytest", &many, None)));
    assert_eq!(answer, "limit: More than 200 paths do not fit one run.");
    let long = "x".repeat(RECIPE_FILTER_BYTES_MAX + 1);
    let answer = said(run(&context, &request("pytest", &[], Some(&long))));
    assert_eq!(answer, "invalid-arguments: The filter is too long.");
    assert!(super::check_filter(&long[1..]).is_ok());
}

#[test]
fn a_test_run_without_a_time_of_its_own_has_ours() {
    let project = Project::new();
    project.environment(".venv", "3.12.1", "exit 0");
    let wanted = Request {
        timeout_seconds: None,
        ..request("pytest", &[], None)
    };
    let _ = run(&project.context(&[]), &wanted);
    let questions = project.user.questions();
    let detail = questions[0].detail();
    assert!(detail.contains("for at most 15 minutes"), "{detail}");
}

/// `RECIPE_FILE_BYTES_MAX`.
#[test]
fn a_manifest_beyond_its_bound_is_none() {
    let project = Project::new();
    let marker = project.outside("marker");
    project.environment(".venv", "3.12.1", &format!("touch '{}'", marker.display()));
    project.write("a.py", "");
    let context = project.context(ALLOWED);
    let padding = usize::try_from(limits::RECIPE_FILE_BYTES_MAX).expect("it fits");
    project.write("package.json", &format!("{{\"x\": \"{}\"}}", "x".repeat(padding)));
    assert_eq!(
        said(run(&context, &request("npm", &[], None))),
        "unavailable: There is no package.json at the repository root."
    );
    assert!(!marker.exists());
}

#[test]
fn the_sources_are_tested_where_a_copy_is_installed_and_that_is_said() {
    let project = Project::new();
    let venv = project.environment(".venv", "3.12.1", "echo \"path=$PYTHONPATH\"");
    let packages = venv.join("lib/python3.12/site-packages");
    for folder in ["shop", "shop-1.0.dist-info"] {
        std::fs::create_dir(packages.join(folder)).expect("folders can be made");
    }
    project.write("src/shop/__init__.py", "");
    let suites = super::run_tests(&project.context(ALLOWED), &request("pytest", &[], None)).expect("it runs");
    let results = suites[0].outcome.as_ref().expect("it ran");
    assert_eq!(project.plain(&results.report.output), "path=…/root/src\n");
    assert_eq!(
        results.notes,
        [
            "note: PYTHONPATH=src: the sources in `src` are tested, not the copy of shop 1.0 that is installed in the \
          environment"
        ]
    );
}

/// Suites that a run finds: `recipe in directory (reason): first line of output, or the failure`.
fn found(project: &Project, paths: &[&str]) -> String {
    let request = Request {
        recipe: None,
        ..request("", paths, None)
    };
    let suites = match super::run_tests(&project.context(ALLOWED), &request) {
        Ok(suites) => suites,
        Err(failure) => return format!("{}: {}", failure.kind.code(), failure.message),
    };
    let lines = suites.iter().map(|suite| {
        let outcome = match &suite.outcome {
            Ok(results) => results.report.output.lines().next().unwrap_or_default().to_owned(),
            Err(failure) => failure.message.clone(),
        };
        format!(
            "{} in `{}` ({}): {outcome}",
            suite.recipe, suite.directory, suite.reason
        )
    });
    project.plain(&lines.collect::<Vec<_>>().join("\n"))
}

fn monorepo() -> Project {
    let project = Project::new();
    for name in ["pnpm", "npm", "cargo", "go", "make"] {
        project.tool(name, "printf '<%s>' \"$@\"; echo");
    }
    project.write("frontend/package.json", r#"{"scripts": {"test": "vitest run"}}"#);
    project.write("frontend/pnpm-lock.yaml", "");
    project.write("frontend/src/a.test.ts", "");
    project.write("backend/pyproject.toml", "[tool.pytest.ini_options]\n");
    project.write("backend/tests/test_a.py", "");
    project.environment("backend/.venv", "3.12.1", "printf '<%s>' \"$@\"; echo");
    project
}

#[test]
fn a_path_of_a_monorepo_runs_its_own_runner_and_no_path_runs_all() {
    let project = monorepo();
    insta::assert_snapshot!(found(&project, &[]), @r"
    pytest in `backend` ([tool.pytest.ini_options] in pyproject.toml): <-m><pytest><-rfE><--tb=short><--color=no><-p><no:cacheprovider>
    pnpm in `frontend` (`vitest run`): <test>
    ");
    insta::assert_snapshot!(found(&project, &["frontend/src"]), @"pnpm in `frontend` (`vitest run`): <test><src>");
    insta::assert_snapshot!(found(&project, &["backend/tests/test_a.py"]), @"pytest in `backend` ([tool.pytest.ini_options] in pyproject.toml): <-m><pytest><-rfE><--tb=short><--color=no><-p><no:cacheprovider><tests/test_a.py>");
}

#[test]
fn a_folder_of_a_workspace_is_no_suite_of_its_own_and_a_nested_module_of_go_is() {
    let project = monorepo();
    for folder in ["frontend", "backend"] {
        std::fs::remove_dir_all(project.root().join(folder)).expect("it was there");
    }
    project.write("Cargo.toml", "[workspace]\n");
    project.write("crates/a/Cargo.toml", "[package]\n");
    project.write("crates/a/tests/api.rs", "");
    project.write("go/go.mod", "module a\n");
    project.write("go/tool/go.mod", "module b\n");
    project.write("go/tool/main.go", "");
    project.write("examples/x/go.mod", "module x\n");
    project.write("Makefile", "test:\n\tcargo test\n");
    insta::assert_snapshot!(found(&project, &[]), @r"
    cargo in `` (Cargo.toml): <test><--offline><--no-fail-fast>
    go in `go` (go.mod): <test><-json><./...>
    go in `go/tool` (go.mod): <test><-json><./...>
    ");
    insta::assert_snapshot!(found(&project, &["crates/a/tests/api.rs"]), @"cargo in `crates/a` (Cargo.toml): <test><--offline><--no-fail-fast><--test><api>");
    insta::assert_snapshot!(found(&project, &["go/tool/main.go"]), @"go in `go/tool` (go.mod): <test><-json><.>");
}

#[test]
fn a_makefile_stands_in_where_nothing_else_fits() {
    let project = monorepo();
    for folder in ["frontend", "backend"] {
        std::fs::remove_dir_all(project.root().join(folder)).expect("it was there");
    }
    project.write("Makefile", "all: build\ncheck: all\n\t./run\n");
    assert_eq!(
        found(&project, &[]),
        "make in `` (the target `check` in Makefile): <check>"
    );
    project.write("Makefile", "all: build\ntest := no\n");
    assert!(found(&project, &[]).starts_with("not-found: no test suite found"));
}

#[test]
fn a_suite_that_cannot_run_is_told_beside_one_that_did() {
    let project = monorepo();
    std::fs::remove_file(project.outside("bin").join("pnpm")).expect("it was there");
    let all = found(&project, &[]);
    assert!(
        all.ends_with("pnpm in `frontend` (`vitest run`): pnpm was not found on the PATH."),
        "{all}"
    );
    assert_eq!(
        found(&project, &["frontend"]),
        "unavailable: pnpm was not found on the PATH."
    );
}

#[test]
fn the_users_own_command_comes_before_every_recipe() {
    let project = monorepo();
    let mut context = project.context(ALLOWED);
    context
        .environment
        .insert("TOOL_TEST_COMMAND".to_owned(), "make 'a b' $HOME".to_owned());
    let request = |recipe: Option<&str>| Request {
        recipe: recipe.map(str::to_owned),
        ..request("", &[], None)
    };
    let suites = super::run_tests(&context, &request(None)).expect("it runs");
    assert_eq!((suites.len(), suites[0].recipe.as_str()), (1, "own"));
    let results = suites[0].outcome.as_ref().expect("it ran");
    assert_eq!(results.report.output, "<a b><$HOME>\n");
    assert!(results.counts.is_none(), "an exit status counts nothing");
    let suites = super::run_tests(&context, &request(Some("pytest"))).expect("it runs");
    assert_eq!(suites[0].recipe, "pytest", "a recipe that is asked for by name wins");
}

#[test]
fn results_of_the_own_command_are_read_from_its_files() {
    let project = Project::new();
    project.tool(
        "check",
        "mkdir -p out; echo '<testsuite><testcase name=\"a\"/><testcase name=\"b\"><failure message=\"off\"/></testcase></testsuite>' > out/r.xml; exit 1",
    );
    let mut context = project.context(ALLOWED);
    context
        .environment
        .insert("TOOL_TEST_COMMAND".to_owned(), "check".to_owned());
    context
        .environment
        .insert("TOOL_TEST_RESULTS".to_owned(), "junit:out/*.xml".to_owned());
    let wanted = Request {
        recipe: None,
        ..request("", &[], None)
    };
    let suites = super::run_tests(&context, &wanted).expect("it runs");
    let run = judge_suites(&suites).expect("it ran");
    assert_eq!(run.verdict().split(" in ").next(), Some("FAILED: 1 failed, 1 passed"));
    let results = suites[0].outcome.as_ref().expect("it ran");
    assert_eq!(
        (results.failed[0].name.as_str(), results.failed[0].message.as_str()),
        ("b", "off")
    );
}

#[test]
fn missing_packages_end_with_the_command_that_fetches_them() {
    let project = monorepo();
    project.write("Cargo.toml", "[package]\n");
    project.tool(
        "cargo",
        "echo 'error: no matching package named `serde` found'; echo 'perhaps you may want to run without the `--offline` flag'; exit 101",
    );
    let failure = run(&project.context(ALLOWED), &request("cargo", &[], None)).expect_err("nothing can start");
    assert_eq!(failure.message, "cargo lacks packages, and a run has no network.");
    assert_eq!(
        failure.hint.as_deref(),
        Some("run this in the repository, outside of the sandbox: cargo fetch")
    );
}

#[test]
fn npm_runs_the_script_of_a_package_manager_that_is_missing() {
    let project = Project::new();
    project.tool("npm", "echo \"npm $*\"");
    project.write("package.json", r#"{"scripts": {"test": "jest"}}"#);
    project.write("yarn.lock", "");
    let wanted = request("yarn", &[], None);
    assert_eq!(
        said(run(&project.context(ALLOWED), &wanted)),
        "unavailable: yarn was not found on the PATH."
    );
    project.write("node_modules/.bin/jest", "");
    let suites = super::run_tests(&project.context(ALLOWED), &wanted).expect("npm is there");
    let results = suites[0].outcome.as_ref().expect("it ran");
    assert_eq!(results.report.output, "npm test\n");
    assert_eq!(results.notes[0], "note: yarn was not found, so npm ran the script");
}

#[test]
fn django_runs_its_own_tests_where_no_pytest_is_configured() {
    let project = Project::new();
    project.environment(".venv", "3.12.1", "echo \"$*\"");
    project.write(
        "manage.py",
        "    from django.core.management import execute_from_command_line\n",
    );
    project.write("cart/test_cart.py", "");
    insta::assert_snapshot!(found(&project, &[]), @"django in `` (from django.core.management import execute_from_command_line in manage.py): manage.py test --noinput");
    project.write("pytest.ini", "[pytest]\n");
    assert!(found(&project, &[]).starts_with("pytest "));
}
