//! Commands in a project's documents: lines of code and code spans that consist of one known command.
//!
//! A command within a sentence does not count. Commands for users of the package, such as `npm install NAME`, are left
//! out.

use std::sync::LazyLock;

use regex::Regex;

use tool_project::Purpose;

use super::{ProjectCommand, evidence_of, is_plain_path};
use crate::evidence::FileLine;
use crate::manifest::ReadFile;
use crate::readme::is_readme;
use crate::survey::{Survey, strip_directory};
use tool_repository::file_role::{Role, detect_role, file_name, file_stem, parent_directory};

/// Documents that are read for commands, besides the README.
const DOCUMENTS_MAX: usize = 4;

/// Documents for people who work on the project, the most helpful first.
const DOCUMENT_STEMS: [&str; 6] = [
    "contributing",
    "development",
    "developing",
    "hacking",
    "building",
    "install",
];

static TESTS: LazyLock<Regex> = LazyLock::new(|| {
    whole_command_regex(&[
        r"(npm|pnpm|yarn|bun)( run| exec)? (test|vitest|jest|mocha)\b.*",
        r"npx (vitest|jest|mocha)\b.*",
        r"(python3? -m |uv run )?pytest\b.*",
        r"tox\b.*|nox\b.*",
        r"make (test|tests|check|verify)",
        r"ctest\b.*",
        r"cargo (test|nextest run)\b.*",
        r"go test\b.*",
        r"(bundle exec )?(rake( test| spec)?|rspec)",
        r"(\./)?mvnw? (.* )?(test|verify)\b.*",
        r"(\./)?gradlew? (.* )?:?(\w+:)*(test|check|allTests)\b.*",
        r"(vendor/bin/)?phpunit\b.*|composer (run )?test|mix test",
        r"(?P<script>(\./)?([\w-]+/)*(run)?_?-?tests?(\.(sh|py|bash))?)",
        r"python3? (?P<program>([\w-]+/)*(run)?_?tests?\.py)",
    ])
});

static BUILDS: LazyLock<Regex> = LazyLock::new(|| {
    whole_command_regex(&[
        r"(npm|pnpm|yarn|bun)( run)? (build|compile)\b.*",
        r"python3? setup\.py build",
        r"make( all| build)?",
        r"docker(-| )compose build\b.*|docker build\b.*",
        r"cmake (\.|-[BS]|--build).*",
        r"\./configure\b.*",
        r"cargo build\b.*",
        r"go build\b.*",
        r"(\./)?mvnw? (.* )?(package|install)\b.*",
        r"(\./)?gradlew? (.* )?(build|assemble|publishToMavenLocal)\b.*",
        r"mix compile|dotnet build\b.*",
        r"(?P<script>(\./)?([\w-]+/)*build(\.sh)?)",
    ])
});

static INSTALLS: LazyLock<Regex> = LazyLock::new(|| {
    whole_command_regex(&[
        r"(npm|pnpm|yarn|bun) (install|ci|i)( --?[\w-]+)*",
        r"(python3? -m |uv )?pip3? install (-e |--editable |-r |\.).*",
        r"python3? setup\.py (install|develop)",
        r"uv sync\b.*|poetry install\b.*|pipenv install\b.*|conda env create\b.*",
        r"bundle install|(bin/)?bundle|composer install|mix (deps\.get|setup|ecto\.setup)",
        r"go mod (download|tidy)|dotnet restore\b.*|ansible-galaxy (collection )?install -r .*|terraform init|make (install|deps|setup)",
        r"(?P<script>(\./)?([\w-]+/)*(install|bootstrap|setup)(\.sh)?)",
    ])
});

static RUNS: LazyLock<Regex> = LazyLock::new(|| {
    whole_command_regex(&[
        r"docker(-| )compose (-f \S+ )?(up|watch)\b.*",
        r"((uv|poetry|pipenv) run )?(python3? )?(\./)?manage\.py runserver\b.*",
        r"((uv|poetry|pipenv) run )?(flask (--\S+ \S+ )*run|uvicorn|gunicorn|fastapi (dev|run)|streamlit run|jupyter (lab|notebook))\b.*",
        r"((uv|poetry|pipenv) run )?python3? (-m [\w.]+|[\w./-]+\.py)( --?[\w-]+)*",
        r"(npm|pnpm|yarn|bun)( run)? (start|dev|serve|develop)\b.*|npm run start:dev|npx nx serve\b.*",
        r"node [\w./-]+",
        r"(bundle exec )?(bin/)?rails (s|server)\b.*|(\./)?bin/dev|bundle exec (rackup|ruby \S+)|foreman start.*",
        r"php artisan serve\b.*|symfony (server:start|serve)\b.*|(\./)?(vendor/bin/)?sail up\b.*|php -S .*",
        r"(\./)?mvnw? .*(spring-boot:run|quarkus:dev)\b.*|(\./)?gradlew? .*(bootRun|quarkusDev|:?run)\b.*|java -jar \S+",
        r"dotnet (run|watch)\b.*|go run \S+.*|cargo run\b.*|cargo tauri dev|mix phx\.server|iex -S mix phx\.server",
        r"ansible-playbook .*|terraform apply\b.*|helm install .*",
        r"make (run|dev|start|serve|up)",
    ])
});

/// Combines expressions into one that matches a whole command. Each group name may occur in one expression only.
fn whole_command_regex(patterns: &[&str]) -> Regex {
    Regex::new(&format!("^(?:{})$", patterns.join("|"))).expect("the expression is a constant")
}

/// Documents that may contain commands, best first.
pub(crate) fn command_documents(target: &str, survey: &Survey) -> Vec<String> {
    let rank = |path: &str| {
        let folder =
            strip_directory(parent_directory(path), target).filter(|_| strip_directory(path, target).is_some());
        let is_near = parent_directory(path) == target || matches!(folder, Some("docs" | "doc" | ".github"));
        let is_document = [".md", ".rst", ".adoc", ".txt", ".markdown"]
            .iter()
            .any(|end| path.ends_with(end))
            || !file_name(path).contains('.');
        let name = file_stem(path).to_ascii_lowercase();
        let rank = DOCUMENT_STEMS.iter().position(|stem| name == *stem);
        rank.filter(|_| is_near && is_document)
    };
    let mut found: Vec<(usize, usize, &str)> = survey
        .files
        .iter()
        .filter_map(|file| Some((rank(&file.path)?, file.path.len(), file.path.as_str())))
        .collect();
    found.sort_unstable();
    let paths = found.into_iter().map(|(_, _, path)| path.to_owned());
    paths.take(DOCUMENTS_MAX).collect()
}

/// The first command of a purpose in some documents.
pub(super) fn stated_command(
    purpose: Purpose,
    target: &str,
    survey: &Survey,
    documents: &[&ReadFile],
) -> Option<ProjectCommand> {
    let pattern = match purpose {
        Purpose::Install => &INSTALLS,
        Purpose::Build => &BUILDS,
        Purpose::Run => &RUNS,
        Purpose::Test => &TESTS,
        Purpose::Lint => return None,
    };
    let command = |words: &str| {
        let found = pattern.captures(words)?;
        match ["script", "program"].iter().find_map(|name| found.name(name)) {
            Some(script) => place_script(words, script.as_str(), target, survey),
            None => Some(words.to_owned()),
        }
        .map(|command| (command, words.to_owned()))
    };
    let in_line = |line: &FileLine| {
        split_snippets(&line.text)
            .into_iter()
            .find_map(command)
            .map(|found| (found, line.clone()))
    };
    documents.iter().find_map(|file| {
        let ((command, words), line) = developer_lines(file, purpose).into_iter().find_map(in_line)?;
        // The command may be composed of words of the line.
        let evidence = if words == command {
            String::new()
        } else {
            evidence_of(&line.text)
        };
        Some(ProjectCommand {
            purpose,
            command,
            script: String::new(),
            evidence,
            line: Some(line.number),
            path: file.path.clone(),
        })
    })
}

/// The lines for people who work on the project: in a README, those below headings about building and testing, or about
/// running it.
fn developer_lines(file: &ReadFile, purpose: Purpose) -> Vec<&FileLine> {
    static TOPIC: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"(?i)\b(build|test|develop|contribut|compil|hacking|from source)").expect("a constant")
    });
    static START: LazyLock<Regex> = LazyLock::new(|| {
        let words =
            r"(?i)\b(run|start|launch|quick|getting|install|set ?up|local|develop|deploy|usage|use|how to|docker)";
        Regex::new(words).expect("a constant")
    });
    let topics: &Regex = if matches!(purpose, Purpose::Install | Purpose::Run) {
        &START
    } else {
        &TOPIC
    };
    if !is_readme(&file.path) {
        return file.lines.iter().collect();
    }
    let mut is_code = false;
    // Level of the heading about building or testing.
    let mut topic: Option<usize> = None;
    let mut lines = Vec::new();
    for line in &file.lines {
        let text = line.text.trim_start();
        is_code ^= text.starts_with("```");
        let level = text.len() - text.trim_start_matches(['#', '=']).len();
        if level > 0 && text[level..].starts_with(' ') && !is_code {
            topic = topic.filter(|topic| level > *topic);
            topic = topic.or_else(|| topics.is_match(text).then_some(level));
        } else if topic.is_some() {
            lines.push(line);
        }
    }
    lines
}

/// The command for an existing script: at its path, or as the only script with its name in another folder.
fn place_script(words: &str, script: &str, target: &str, survey: &Survey) -> Option<String> {
    let path = script.trim_start_matches("./");
    let inside = |path: &str| strip_directory(path, target).map(str::to_owned);
    let files = survey
        .files
        .iter()
        .filter(|file| detect_role(&file.path) != Role::Example);
    let files = files.filter_map(|file| inside(&file.path));
    let mut found: Vec<String> = files
        .filter(|file| file == path || file.ends_with(&format!("/{path}")))
        .collect();
    found.sort_by_key(|file| file != path);
    let first = found.first()?;
    // A word such as `test` is a script only if it is called like one.
    let is_called = script.contains('/') || script.contains('.');
    match first.strip_suffix(path)?.trim_end_matches('/') {
        _ if !is_called => None,
        "" if path.contains('/') || words.contains(' ') || script.starts_with("./") => Some(words.to_owned()),
        "" => Some(format!("./{words}")),
        folder if found.len() == 1 && is_plain_path(folder) => {
            let words = words.trim_start_matches("./");
            Some(format!("cd {folder} && ./{words}"))
        }
        _ => None,
    }
}

/// Texts of a line that may be commands: its code spans, or the line without a prompt and a comment.
fn split_snippets(line: &str) -> Vec<&str> {
    let text = line.trim().trim_start_matches(['$', '%']).trim_start();
    let text = text.split_once(" #").map_or(text, |(before, _)| before).trim();
    let spans = line.split('`').skip(1).step_by(2);
    let doubled = line.split("``").skip(1).step_by(2);
    let is_plain = |text: &&str| !text.contains(['<', '\u{2026}']) && !text.contains("...");
    std::iter::once(text)
        .chain(spans)
        .chain(doubled)
        .filter(is_plain)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::number_lines;

    fn stated(text: &str, files: &[&str]) -> [Option<String>; 2] {
        let file = ReadFile {
            path: "CONTRIBUTING.md".to_owned(),
            lines: number_lines(text),
        };
        let survey = Survey::of_paths(files);
        [Purpose::Install, Purpose::Test].map(|purpose| {
            let found = stated_command(purpose, "", &survey, &[&file])?;
            Some(format!("{}:{}", found.command, found.line?))
        })
    }

    #[test]
    fn documents_state_whole_commands() {
        let some = |build: &str, test: &str| [Some(build.to_owned()), Some(test.to_owned())];
        let markdown = "npm install shop\n\n3. Run `pnpm install` first, then make sure of it\n\n```sh\n\
                        $ pnpm vitest run # all\n```\n";
        assert_eq!(stated(markdown, &[]), some("pnpm install:3", "pnpm vitest run:6"));
        let plain = "or ``python -m pip install -e .`` to build.\n\n    tox -e py\n";
        assert_eq!(stated(plain, &[]), some("python -m pip install -e .:1", "tox -e py:3"));
        let script = "----\n\t$ ./install.sh\n----\nuse the `test.sh` script, a `test` of it and `npm test <name>`\n";
        let files = ["projects/install.sh", "projects/test.sh", "examples/test.sh", "test"];
        assert_eq!(
            stated(script, &files),
            some("cd projects && ./install.sh:2", "cd projects && ./test.sh:4")
        );
        assert_eq!(stated(script, &["a/test.sh", "b/test.sh"]), [None, None]);
        // A person may copy the command.
        assert_eq!(
            stated(script, &["a; touch b/test.sh", "$(touch c)/install.sh"]),
            [None, None]
        );
        assert_eq!(stated("bin/test\n", &["bin/test"])[1].as_deref(), Some("bin/test:1"));
    }

    #[test]
    fn a_readme_states_commands_for_developers_below_headings_about_them() {
        let file = ReadFile {
            path: "README.md".to_owned(),
            lines: number_lines(
                "# Shop\n## Use\n```sh\nnpm i\n# test\n```\n## Building\n### Linux\n```\nnpm ci\n```\n## Use\nmake\n",
            ),
        };
        let lines: Vec<usize> = developer_lines(&file, Purpose::Build)
            .iter()
            .map(|line| line.number)
            .collect();
        assert_eq!(lines, [9, 10, 11]);
    }

    #[test]
    fn documents_for_developers_are_near_the_root() {
        let survey = Survey::of_paths(&[
            "INSTALL",
            "docs/CONTRIBUTING.rst",
            "CONTRIBUTING.md",
            "src/install.rs",
            "lib/docs/contributing.md",
            "install.py",
        ]);
        assert_eq!(
            command_documents("", &survey),
            ["CONTRIBUTING.md", "docs/CONTRIBUTING.rst", "INSTALL"]
        );
    }
}
