//! The user's corrections of a selection: files that must be in it, and files that must not.
//!
//! Patterns are globs on paths from the root. A pattern without a wildcard names a file, or a directory with all files
//! below it. Included files keep the order of their patterns; `select` decides how many of them fit.

use globset::{GlobSet, GlobSetBuilder};

use tool_core::api::{ErrorKind, PATTERN_CHARS_MAX, Problem, SelectionRequest};
use tool_repository::FileEntry;
use tool_repository::path::with_literal_brackets;

/// Files that `--include` may name: the selection and its near misses hold fewer.
const FILTER_FILES_MAX: usize = 20;

/// Patterns of `--include` and `--exclude` together; each is matched against every path of the repository.
const FILTER_PATTERNS_MAX: usize = 100;

/// See the module. The default changes nothing.
#[derive(Debug, Default)]
pub struct SelectionFilter {
    include: Vec<(String, GlobSet)>,
    exclude: GlobSet,
    /// The project's instruction files are left out.
    without_instructions: bool,
    /// Earlier commits count for nothing.
    without_history: bool,
}

impl SelectionFilter {
    /// Reads the patterns of a request.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::InvalidRequest`] for too many patterns or one that is not a glob.
    pub fn new(request: &SelectionRequest) -> Result<Self, Problem> {
        let include = request.include.iter().map(|pattern| {
            let globs = parse_globs(std::slice::from_ref(pattern), "include")?;
            Ok((pattern.clone(), globs))
        });
        if request.include.len() + request.exclude.len() > FILTER_PATTERNS_MAX {
            let message = format!("More than {FILTER_PATTERNS_MAX} patterns to include and exclude");
            return Err(Problem::new(ErrorKind::InvalidRequest, message));
        }
        Ok(Self {
            include: include.collect::<Result<_, Problem>>()?,
            exclude: parse_globs(&request.exclude, "exclude")?,
            without_instructions: request.no_instructions,
            without_history: false,
        })
    }

    /// Leaves out the project's instruction files if `is_so`.
    #[must_use]
    pub fn without_instructions_if(mut self, is_so: bool) -> Self {
        self.without_instructions |= is_so;
        self
    }

    /// Leaves earlier commits out of the ranking if `is_so`.
    #[must_use]
    pub fn without_history_if(mut self, is_so: bool) -> Self {
        self.without_history |= is_so;
        self
    }

    /// The patterns of the files to include, as given.
    pub fn include_patterns(&self) -> impl Iterator<Item = &str> {
        self.include.iter().map(|(pattern, _)| pattern.as_str())
    }

    /// The paths in the patterns to include: a file, a directory, or the directory above the first wildcard.
    pub(super) fn named_paths(&self) -> impl Iterator<Item = String> {
        self.include_patterns().filter_map(|pattern| {
            let parts = pattern.trim_start_matches("./").split('/');
            let named: Vec<&str> = parts
                .take_while(|part| !part.contains(['*', '?', '[', '{', '\\']))
                .collect();
            Some(named.join("/").trim_end_matches('/').to_owned()).filter(|path| !path.is_empty())
        })
    }

    pub(super) fn takes_history(&self) -> bool {
        !self.without_history
    }

    /// True to send the project's instruction files.
    pub(super) fn takes_instructions(&self) -> bool {
        !self.without_instructions
    }

    /// True if no file is excluded.
    pub(super) fn keeps_all(&self) -> bool {
        self.exclude.is_empty()
    }

    /// True for a file that may be considered.
    pub(super) fn keeps(&self, entry: &FileEntry) -> bool {
        !self.exclude.is_match(&entry.path)
    }

    /// The files that must be in the selection, in the order of the patterns and then of their paths. A pattern that
    /// matches no file is an error, because the user would not notice it. At most `FILTER_FILES_MAX` files are returned.
    pub(super) fn included<'a>(&self, paths: &[&'a str]) -> Result<Vec<&'a str>, Problem> {
        let mut included: Vec<&str> = Vec::new();
        for (pattern, globs) in &self.include {
            let mut matching = paths.iter().copied().filter(|path| globs.is_match(path)).peekable();
            if matching.peek().is_none() {
                let message = format!("File not found: {pattern}");
                let hint = "`--include` matches no file that can be selected; use a path or a glob from the root";
                return Err(Problem::new(ErrorKind::FileNotFound, message).with_hint(hint));
            }
            while included.len() < FILTER_FILES_MAX
                && let Some(path) = matching.next()
            {
                if !included.contains(&path) {
                    included.push(path);
                }
            }
        }
        Ok(included)
    }
}

fn parse_globs(patterns: &[String], option: &str) -> Result<GlobSet, Problem> {
    let wrong = |pattern: &str, reason: String| {
        let message = format!("The pattern `{pattern}` of `{option}` cannot be used: {reason}");
        Problem::new(ErrorKind::InvalidRequest, message).with_hint("for example `src/**/*.py`, or `docs`")
    };
    let mut set = GlobSetBuilder::new();
    for pattern in patterns {
        let normal = pattern.trim_start_matches("./").trim_end_matches('/');
        if normal.is_empty() || pattern.chars().count() > PATTERN_CHARS_MAX {
            return Err(wrong(pattern, "it is empty or too long".to_owned()));
        }
        let compile = |form: &str| globset::GlobBuilder::new(form).literal_separator(true).build();
        let literal = with_literal_brackets(normal).filter(|literal| compile(literal).is_ok());
        for form in literal.iter().map(String::as_str).chain([normal]) {
            for form in [form.to_owned(), format!("{form}/**")] {
                set.add(compile(&form).map_err(|error| wrong(pattern, error.kind().to_string()))?);
            }
        }
    }
    set.build()
        .map_err(|error| wrong(&patterns.join(", "), error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(include: &[&str], exclude: &[&str]) -> Result<SelectionFilter, Problem> {
        let owned = |patterns: &[&str]| patterns.iter().map(|&pattern| pattern.to_owned()).collect();
        SelectionFilter::new(&SelectionRequest {
            include: owned(include),
            exclude: owned(exclude),
            no_instructions: false,
        })
    }

    #[test]
    fn a_pattern_is_a_file_a_directory_or_a_glob() {
        let paths = ["docs/a.md", "src/a.py", "src/b/c.py", "src.py"];
        let included = |patterns: &[&str]| filter(patterns, &[]).and_then(|filter| filter.included(&paths));
        assert_eq!(included(&["src"]), Ok(vec!["src/a.py", "src/b/c.py"]));
        assert_eq!(included(&["./src/"]), Ok(vec!["src/a.py", "src/b/c.py"]));
        assert_eq!(included(&["src/*.py"]), Ok(vec!["src/a.py"]));
        assert_eq!(
            included(&["src.py", "**/*.md", "src*"]),
            Ok(vec!["src.py", "docs/a.md", "src/a.py", "src/b/c.py"])
        );
        let problem = included(&["gone.py"]).expect_err("there is no such file");
        assert_eq!(problem.message, "File not found: gone.py");
    }

    #[test]
    fn a_pattern_for_everything_takes_no_more_than_there_is_room_for() {
        let paths: Vec<String> = (0..100_000).map(|at| format!("src/{at}.py")).collect();
        let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
        let filter = filter(&["**", "src", "src/*.py"], &[]).expect("the patterns are right");
        assert_eq!(filter.included(&paths).map(|files| files.len()), Ok(FILTER_FILES_MAX));
    }

    #[test]
    fn patterns_are_bounded_in_number_and_length() {
        let many = vec!["a"; FILTER_PATTERNS_MAX / 2 + 1];
        let problem = filter(&many, &many).expect_err("there are too many");
        assert!(problem.message.contains(&FILTER_PATTERNS_MAX.to_string()), "{problem}");
        assert!(filter(&many, &[]).is_ok());
        let long = "é".repeat(PATTERN_CHARS_MAX);
        assert!(filter(&[&long], &[]).is_ok());
        assert!(filter(&[], &[&format!("{long}a")]).is_err());
    }

    #[test]
    fn a_pattern_that_cannot_be_read_is_named() {
        for pattern in ["", "./", "a{b", "[z-a]"] {
            let problem = filter(&[], &[pattern]).expect_err("the pattern is broken");
            assert_eq!(problem.kind, ErrorKind::InvalidRequest);
            assert!(
                problem.message.contains(&format!("`{pattern}` of `exclude`")),
                "{problem}"
            );
        }
    }
}
