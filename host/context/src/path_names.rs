//! The words of the names in a list of paths.
//!
//! A ranking compares the name of every file with the task. The part of that work that depends only on the paths is
//! computed once for a list. The results equal those of the functions in `area` and `query` that read a path.

use std::collections::HashMap;

use super::query::Query;
use super::task_areas::{AreaStep, TaskArea};
use super::words::{each_identifier, hash, join_words, split_identifier, stem_word};
use tool_repository::file_role::{file_stem, parent_directory};

/// See the module. Numbers of files are those of the list.
#[derive(Debug, Default)]
pub(crate) struct PathNames {
    /// By file: the number of its directory.
    folders: Vec<u32>,
    /// By directory: a file in it, from whose path the directory is read.
    examples: Vec<u32>,
    /// By directory: the words of its path.
    folder_words: NestedLists<u32>,
    /// By file: the words of its name, and whether each is the whole of several.
    words: NestedLists<(u32, bool)>,
    /// By file: its name without extensions, in the form of [`join_words`].
    stems: NestedLists<u8>,
}

/// Lists of different lengths in one piece of memory.
#[derive(Debug)]
struct NestedLists<T> {
    items: Vec<T>,
    ends: Vec<usize>,
}

impl<T> Default for NestedLists<T> {
    fn default() -> Self {
        Self {
            items: Vec::new(),
            ends: Vec::new(),
        }
    }
}

impl<T> NestedLists<T> {
    fn end_row(&mut self) {
        self.ends.push(self.items.len());
    }

    fn row(&self, at: usize) -> &[T] {
        let from = at.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.items[from..self.ends[at]]
    }
}

impl PathNames {
    pub(crate) fn new(paths: &[&str]) -> Self {
        let mut names = Self::default();
        let mut numbers: HashMap<&str, u32> = HashMap::new();
        for (at, path) in (0_u32..).zip(paths) {
            let next = numbers.len() as u32;
            let folder = *numbers.entry(parent_directory(path)).or_insert(next);
            if folder == next {
                names.examples.push(at);
                names.add_folder(parent_directory(path));
            }
            names.folders.push(folder);
            let own = file_stem(path);
            each_identifier(own.as_bytes(), |identifier| {
                split_identifier(identifier, |word, whole| {
                    names.words.items.push((hash(stem_word(word)), whole))
                });
            });
            names.words.end_row();
            let own = join_words(own);
            names.stems.items.extend_from_slice(own.as_bytes());
            names.stems.end_row();
        }
        names.words.items.shrink_to_fit();
        names
    }

    fn add_folder(&mut self, path: &str) {
        each_identifier(path.as_bytes(), |identifier| {
            split_identifier(identifier, |word, _| {
                self.folder_words.items.push(hash(stem_word(word)))
            });
        });
        self.folder_words.end_row();
    }

    pub(crate) fn folder(&self, at: u32) -> usize {
        self.folders[at as usize] as usize
    }

    pub(crate) fn folder_count(&self) -> usize {
        self.examples.len()
    }

    /// The name of a file without its extensions, in the form of [`join_words`].
    pub(crate) fn stem(&self, at: u32) -> &str {
        std::str::from_utf8(self.stems.row(at as usize)).unwrap_or_default()
    }

    /// Terms in a file's own name, and the number of other words in it.
    pub(crate) fn name_terms(&self, query: &Query, at: u32, terms: &mut Vec<u16>) -> u32 {
        let mut others = 0;
        terms.clear();
        for (word, is_whole) in self.words.row(at as usize) {
            match query.term_of(*word) {
                Some(term) => terms.push(term),
                None => others += u32::from(!is_whole),
            }
        }
        others
    }

    /// By directory: the terms in its path.
    pub(crate) fn folder_terms(&self, query: &Query) -> Vec<Vec<u16>> {
        let of = |folder: usize| self.folder_words.row(folder).iter();
        (0..self.folder_count())
            .map(|folder| of(folder).filter_map(|word| query.term_of(*word)).collect())
            .collect()
    }

    /// By area of a task and by file: the certainty that it belongs to the area.
    pub(crate) fn areas(&self, query: &Query, paths: &[&str]) -> Vec<Vec<f64>> {
        query.areas.iter().map(|area| self.belong(area, paths)).collect()
    }

    /// By file: the certainty that it belongs to an area.
    pub(crate) fn belong(&self, area: &TaskArea, paths: &[&str]) -> Vec<f64> {
        let steps: Vec<(AreaStep<'_>, Vec<f64>)> = area
            .steps()
            .map(|step| {
                let of_folder = |file: &u32| step.in_folders(parent_directory(paths[*file as usize]));
                (step, self.examples.iter().map(of_folder).collect())
            })
            .collect();
        let mut values = vec![0.0; steps.len()];
        (0_u32..)
            .zip(paths)
            .map(|(at, path)| {
                for (value, (step, in_folders)) in values.iter_mut().zip(&steps) {
                    let own = if step.may_be_in(self.stem(at), file_stem(path)) {
                        step.in_name(file_stem(path))
                    } else {
                        0.0
                    };
                    *value = in_folders[self.folder(at)].max(own);
                }
                area.weigh(&values)
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::task_areas::belongs;
    use crate::weights::WEIGHTS;

    proptest! {
        /// Names, directories and areas are found as the paths themselves tell them.
        #[test]
        fn what_is_kept_of_names_is_what_the_paths_say(
            paths in proptest::collection::btree_set("[a-dA-D_$.é-]{1,7}(/[a-cA-C_.-]{1,5}){0,3}(\\.[ch])?", 1..12),
            title in "[a-d]{1,3}(/[a-d]{2,4})?: [a-d_A-D]{2,6} [a-d.c/]{1,6}",
        ) {
            let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
            let query = Query::new(&title, &WEIGHTS);
            let names = PathNames::new(&paths);
            let folders = names.folder_terms(&query);
            let mut terms = Vec::new();
            for (at, path) in (0_u32..).zip(&paths) {
                let others = names.name_terms(&query, at, &mut terms);
                let told = (terms.clone(), folders[names.folder(at)].clone(), others);
                prop_assert_eq!(told, crate::rank::path_terms(&query, path), "{}", path);
                prop_assert_eq!(names.stem(at), join_words(file_stem(path)));
            }
            for area in &query.areas {
                let expected: Vec<f64> = paths.iter().map(|path| belongs(area, path)).collect();
                prop_assert_eq!(names.belong(area, &paths), expected);
            }
        }
    }
}
