//! What the overview, `tool tests` and the skill `run_tests` say about the tests of one project.

use std::path::Path;

use tool_project::{ProjectFile, ProjectTree, Purpose, detect_project, plan_reads};
use tool_repository::file_role::is_test;

use super::plan::plan_runs;
use super::*;
use crate::imports::recipe::testing::Project;

/// The commands of a purpose that the overview shows, for files with their texts.
fn overview_commands(files: &toml::Table, purpose: Purpose) -> Vec<String> {
    let paths: Vec<&str> = files.keys().map(String::as_str).collect();
    let tree = ProjectTree::from_paths("", &paths, is_test);
    let read = |path: String| {
        let text = files[&path].as_str().expect("a file has text").to_owned();
        ProjectFile { path, text }
    };
    let read: Vec<ProjectFile> = plan_reads(&tree).into_iter().map(read).collect();
    let commands = detect_project(&tree, &read).commands.into_iter();
    commands
        .filter(|own| own.purpose == purpose)
        .map(|own| own.command)
        .collect()
}

/// What `tool tests` lists and what the skill would run, one `recipe in folder` a suite.
fn planned_and_run(project: &Project) -> [Vec<String>; 2] {
    let context = project.context(&["run-process"]);
    let (repository, environment) = (&context.repository, &context.environment);
    let planned = plan_runs(repository, environment, None, &context.cancel).expect("the files can be listed");
    let tests = planned
        .into_iter()
        .filter(|run| run.purpose == RunPurpose::Tests && !run.paths_only);
    let planned = tests.map(|run| match run.recipe.as_str() {
        "none" => run.command.join(" "),
        recipe => format!("{recipe} in `{}`", run.directory),
    });
    let files = detect::list_repository(repository, &context.cancel).expect("they can be listed");
    let search = SuiteSearch {
        repository,
        cancel: &context.cancel,
        files: &files,
        purpose: RunPurpose::Tests,
        wanted: None,
    };
    let run = match search.find(&[]) {
        Ok(suites) => suites
            .into_iter()
            .map(|suite| format!("{} in `{}`", suite.recipe.name, suite.found.directory))
            .collect(),
        Err(_) => search.shown_command().into_iter().map(|shown| shown.command).collect(),
    };
    [planned.collect(), run]
}

#[test]
fn overview_list_and_skill_agree_on_the_tests_of_each_framework() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../project/fixtures");
    let mut lines: Vec<String> = Vec::new();
    for entry in std::fs::read_dir(folder).expect("the fixtures are there") {
        let path = entry.expect("it can be listed").path();
        let name = path
            .file_stem()
            .and_then(|name| name.to_str())
            .expect("a name")
            .to_owned();
        let text = std::fs::read_to_string(&path).expect("it can be read");
        let fixture: toml::Table = toml::from_str(&text).expect("it is TOML");
        let files = fixture["files"].as_table().expect("a table of files");
        let project = Project::new();
        for (path, text) in files {
            project.write(path, text.as_str().expect("a file has text"));
        }
        let shown = overview_commands(files, Purpose::Test);
        let [planned, run] = planned_and_run(&project);
        assert_eq!(planned, run, "{name}");
        let first = |said: &[String]| said.first().cloned().unwrap_or_default();
        if !shown.is_empty() || !planned.is_empty() {
            lines.push(format!("{name}: {} = {}", first(&shown), first(&planned)));
        }
    }
    lines.sort();
    let contradictions: Vec<&String> = lines
        .iter()
        .filter(|line| line.contains(":  =") || line.ends_with("= "))
        .collect();
    assert_eq!(contradictions, Vec::<&String>::new());
    insta::assert_snapshot!(lines.join("\n"), @r"
    actix: cargo test = cargo in ``
    android: ./gradlew test = gradle in ``
    angular: npm test = npm in ``
    ansible-role: molecule test = molecule test
    aspnet: dotnet test = dotnet in ``
    autotools: make check = make check
    axum: cargo test = cargo in ``
    bazel: bazel test //... = bazel test //...
    cargo-workspace: cargo test --workspace = cargo in ``
    cargo: cargo test = cargo in ``
    chi: go test ./... = go in ``
    clap: cargo test = cargo in ``
    cmake: ctest --test-dir build = ctest in ``
    cobra: go test ./... = go in ``
    composer: composer test = composer test
    django: python manage.py test = django in ``
    dotnet: dotnet test = dotnet in ``
    echo: go test ./... = go in ``
    express: yarn test = yarn in ``
    fastapi: cd backend && uv run pytest = pytest in `backend`
    fiber: go test ./... = go in ``
    flask: python -m pytest = pytest in ``
    gin-in-the-root: go test ./... = go in ``
    gin: go test ./... = go in ``
    go-program: go test ./... = go in ``
    go-work: cd api && go test ./... = go in `api`
    go: go test ./... = go in ``
    gradle-modules: ./gradlew test = gradle in ``
    gradle: ./gradlew test = gradle in ``
    java-application: ./gradlew test = gradle in ``
    just: just test = just test
    ktor: gradle test = gradle in ``
    laravel: php artisan test = phpunit in ``
    lint-tools: go test ./... = go in ``
    maven-modules: mvn test = maven in ``
    maven: mvn test = maven in ``
    meson: meson test -C build = meson in ``
    micronaut: ./gradlew test = gradle in ``
    mix: mix test = exunit in ``
    nest: npm test = npm in ``
    node-cli: npm test = npm in ``
    node-tests: npx vitest run = npx vitest run
    nox: nox = nox
    npm-workspace: npm run test --workspaces --if-present = npm in `a`
    nx: npx nx run-many -t test = npx nx run-many -t test
    phoenix: mix test = exunit in ``
    phpunit: vendor/bin/phpunit = phpunit in ``
    pnpm: pnpm -r run test = pnpm in `packages/a`
    pytest: python -m pytest = pytest in ``
    quarkus: mvn test = maven in ``
    rails: bin/rails test = minitest in ``
    rake: bundle exec rake test = minitest in ``
    react-native: npm test = npm in ``
    rspec: bundle exec rspec = rspec in ``
    rust-program: cargo test = cargo in ``
    spring-boot: ./mvnw test = maven in ``
    sveltekit: npm test = npm in ``
    symfony: php bin/phpunit = phpunit in ``
    tauri: cd src-tauri && cargo test = cargo in `src-tauri`
    terraform: terraform test = terraform test
    test-scripts: ./runtests = ./runtests
    tox: tox = tox
    turbo: pnpm test = pnpm in ``
    unittest-file: python -m unittest discover = unittest in ``
    unittest: python -m unittest discover = unittest in ``
    uv-workspace: uv run pytest = pytest in ``
    ");
}
