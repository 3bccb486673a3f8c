//! Fills the placeholders of argument vectors with checked paths and names.

use globset::GlobBuilder;

use crate::recipes::{PathRule, TestRecipe};

#[derive(Debug, PartialEq, Eq)]
pub(super) struct FilledArguments {
    pub(super) arguments: Vec<String>,
    /// Paths whose tests cannot be selected, so that all tests run.
    pub(super) unselected: Vec<String>,
}

/// Fills a vector of a recipe. `script` are the arguments for the script of a package manager, `target` is the name
/// that the sign found.
pub(super) fn fill_template(
    template: &[String],
    recipe: &TestRecipe,
    paths: &[String],
    filter: Option<&str>,
    script: &[String],
    target: Option<&str>,
) -> FilledArguments {
    let (selected, unselected) = select_rules(&recipe.paths, paths);
    let mut arguments = Vec::new();
    for argument in template {
        let all = argument.strip_prefix("{paths|").and_then(|rest| rest.strip_suffix('}'));
        match (argument.as_str(), all) {
            (_, Some(all)) if selected.is_empty() => arguments.push(all.to_owned()),
            ("{paths}", _) | (_, Some(_)) => arguments.extend(selected.iter().cloned()),
            ("{filter}", _) => arguments.extend(
                filter
                    .into_iter()
                    .flat_map(|filter| recipe.filter.iter().map(move |part| part.replace("{filter}", filter))),
            ),
            ("{script}", _) => {
                if !script.is_empty() {
                    arguments.extend(recipe.separator.clone());
                }
                arguments.extend(script.iter().cloned());
            }
            ("{target}", _) => arguments.extend(target.map(str::to_owned)),
            _ => arguments.push(argument.clone()),
        }
    }
    FilledArguments { arguments, unselected }
}

/// The arguments that select paths, without duplicates. If one path cannot be selected, none is: otherwise a part of
/// the tests would count as all that was requested.
fn select_rules(rules: &[PathRule], paths: &[String]) -> (Vec<String>, Vec<String>) {
    let rule_of = |path: &String| {
        let fits = |rule: &&PathRule| {
            let glob = GlobBuilder::new(&rule.glob).literal_separator(true).build();
            glob.is_ok_and(|glob| glob.compile_matcher().is_match(path.split("::").next().unwrap_or(path)))
        };
        rules.iter().position(|rule| fits(&rule))
    };
    let unselected: Vec<String> = paths.iter().filter(|path| rule_of(path).is_none()).cloned().collect();
    if !unselected.is_empty() {
        return (Vec::new(), unselected);
    }
    let mut sets: Vec<Vec<String>> = Vec::new();
    for (number, rule) in rules.iter().enumerate() {
        let own = paths.iter().filter(|path| rule_of(path) == Some(number));
        let filled = own.map(|path| {
            rule.arguments
                .iter()
                .map(|part| fill_path(part, path))
                .collect::<Vec<_>>()
        });
        match &rule.join {
            None => {
                for set in filled {
                    if !sets.contains(&set) {
                        sets.push(set);
                    }
                }
            }
            Some(separator) => sets.extend(join_sets(filled.collect(), separator)),
        }
    }
    (sets.concat(), Vec::new())
}

/// Joins several sets: values that differ are appended behind the separator.
fn join_sets(sets: Vec<Vec<String>>, separator: &str) -> Option<Vec<String>> {
    let mut sets = sets.into_iter();
    let mut first = sets.next()?;
    for set in sets {
        for (argument, other) in first.iter_mut().zip(set) {
            let value = other.split_once('=').map_or(other.as_str(), |(_, value)| value);
            let known = argument.split_once('=').map_or(argument.as_str(), |(_, value)| value);
            if !known.split(separator).any(|part| part == value) {
                argument.push_str(separator);
                argument.push_str(value);
            }
        }
    }
    Some(first)
}

fn fill_path(part: &str, path: &str) -> String {
    let (folder, name) = path.rsplit_once('/').unwrap_or((".", path));
    let stem = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
    part.replace("{path}", path)
        .replace("{folder}", folder)
        .replace("{stem}", stem)
        .replace("./.", ".")
}

#[cfg(test)]
mod unit {
    use super::*;
    use crate::recipes;

    fn filled(recipe: &str, paths: &[&str], filter: Option<&str>) -> String {
        let recipe = recipes::find_recipe(recipe).expect("it is a recipe");
        let paths: Vec<String> = paths.iter().map(|path| (*path).to_owned()).collect();
        let filled = fill_template(&recipe.arguments, recipe, &paths, filter, &[], Some("check"));
        let note = if filled.unselected.is_empty() { "" } else { " (all)" };
        format!("{}{note}", filled.arguments.join(" "))
    }

    #[test]
    fn every_runner_gets_paths_and_filters_in_its_own_form() {
        let rows: [(&str, &[&str], Option<&str>); 22] = [
            ("pytest", &[], None),
            ("pytest", &["tests/test_a.py::test_b", "tests"], Some("a or b")),
            ("unittest", &[], None),
            ("unittest", &["tests/test_a.py"], None),
            ("unittest", &["tests"], Some("adds")),
            ("cargo", &[], None),
            ("cargo", &["tests/api.rs", "tests/api.rs"], Some("adds")),
            ("cargo", &["src/lib.rs"], None),
            ("nextest", &["tests/api.rs"], Some("adds")),
            ("go", &[], None),
            (
                "go",
                &["main.go", "store/a_test.go", "store/b_test.go", "api"],
                Some("TestA"),
            ),
            (
                "maven",
                &["src/test/java/a/StoreTest.java", "src/test/java/a/ApiTest.java"],
                None,
            ),
            ("gradle", &["src/test/java/a/StoreTest.java"], None),
            ("ctest", &["src/a.c"], Some("store")),
            ("meson", &[], None),
            ("make", &["src/a.c"], None),
            ("rspec", &["spec/a_spec.rb"], Some("adds")),
            ("minitest", &["test/a_test.rb"], Some("adds")),
            ("phpunit", &["tests/ATest.php"], Some("adds")),
            ("exunit", &["test/a_test.exs"], None),
            ("dotnet", &[], Some("Adds")),
            ("tox", &[], None),
        ];
        let shown = rows.map(|(recipe, paths, filter)| format!("{recipe}: {}", filled(recipe, paths, filter)));
        insta::assert_snapshot!(shown.join("\n"), @r"
        pytest: -m pytest -rfE --tb=short --color=no -p no:cacheprovider
        pytest: -m pytest -rfE --tb=short --color=no -p no:cacheprovider -k a or b tests/test_a.py::test_b tests
        unittest: -m unittest discover
        unittest: -m unittest tests/test_a.py
        unittest: -m unittest discover -s tests -k adds
        cargo: test --offline --no-fail-fast
        cargo: test --offline --no-fail-fast --test api -- adds
        cargo: test --offline --no-fail-fast (all)
        nextest: nextest run --offline --no-fail-fast --test api adds
        go: test -json ./...
        go: test -json -run TestA . ./store ./api/...
        maven: --offline --batch-mode -ntp -Dstyle.color=never -Daether.enhancedLocalRepository.trackingFilename=none -Dmaven.test.failure.ignore=false -fae -Dtest=StoreTest,ApiTest -Dsurefire.failIfNoSpecifiedTests=false test
        gradle: --offline --no-daemon --console=plain --continue test --tests *StoreTest
        ctest: --test-dir .tool-build --output-on-failure -R store (all)
        meson: test -C .tool-build --print-errorlogs
        make: check (all)
        rspec: --no-color --format json --example adds spec/a_spec.rb
        minitest: test TEST=test/a_test.rb TESTOPTS=--name=/adds/
        phpunit: --colors=never --filter adds tests/ATest.php
        exunit: test --no-color --no-deps-check test/a_test.exs
        dotnet: test --nologo --no-restore --filter Adds
        tox: run --skip-pkg-install --skip-env-install
        ");
    }
}
