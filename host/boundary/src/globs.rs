//! Globs of a query, compiled within bounds.

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

use crate::Failure;
use tool_repository::path::with_literal_brackets;

/// Globs of one list query, and bytes of each: compiling them is work done in the host.
pub(crate) const LIST_GLOBS_MAX: usize = 64;

/// See [`LIST_GLOBS_MAX`].
pub(crate) const LIST_GLOB_BYTES_MAX: usize = 1_024;

/// The globs of a query.
#[derive(Debug)]
pub(crate) struct Globs {
    written: Vec<String>,
    including: Option<GlobSet>,
    excluding: GlobSet,
}

impl Globs {
    pub(crate) fn new(globs: &[String]) -> Result<Self, Failure> {
        if globs.len() > LIST_GLOBS_MAX {
            let message = format!("there are more than {LIST_GLOBS_MAX} globs");
            return Err(Failure::invalid_arguments(message));
        }
        let (excluding, including): (Vec<&str>, Vec<&str>) =
            globs.iter().map(String::as_str).partition(|glob| glob.starts_with('!'));
        let excluding: Vec<&str> = excluding.into_iter().map(|glob| &glob[1..]).collect();
        Ok(Self {
            written: globs.to_vec(),
            including: if including.is_empty() {
                None
            } else {
                Some(build_glob_set(&including)?)
            },
            excluding: build_glob_set(&excluding)?,
        })
    }

    /// True if these are the same globs.
    pub(crate) fn are(&self, globs: &[String]) -> bool {
        self.written == globs
    }

    pub(crate) fn select(&self, path: &str) -> bool {
        // A set without globs would still split the path, and a search asks about every file.
        self.including.as_ref().is_none_or(|globs| globs.is_match(path))
            && (self.excluding.is_empty() || !self.excluding.is_match(path))
    }
}

/// Compiles globs. A glob without `/` matches the file name in every directory. Brackets may also be literal
/// characters, as in names of Next.js routes.
fn build_glob_set(globs: &[&str]) -> Result<GlobSet, Failure> {
    let mut builder = GlobSetBuilder::new();
    for glob in globs {
        let invalid = |why: &str| Failure::invalid_arguments(format!("the glob `{glob}` is not valid: {why}"));
        if glob.len() > LIST_GLOB_BYTES_MAX {
            return Err(invalid("it is too long"));
        }
        let anchored = match glob.strip_prefix('/').unwrap_or(glob) {
            inner if inner.contains('/') || inner.len() < glob.len() => inner.to_owned(),
            name => format!("**/{name}"),
        };
        let compile = |glob: &str| GlobBuilder::new(glob).literal_separator(true).build();
        let written = compile(&anchored).map_err(|error| invalid(&error.kind().to_string()))?;
        let literal = with_literal_brackets(&anchored).and_then(|literal| compile(&literal).ok());
        for glob in [Some(written), literal].into_iter().flatten() {
            builder.add(glob);
        }
    }
    builder
        .build()
        .map_err(|error| Failure::invalid_arguments(format!("the globs are not valid: {}", error.kind())))
}
