//! Arguments of `tool batch`.

use std::path::PathBuf;

use clap::Args;
use tool_core::api::Dollars;

use super::{SessionFlags, TurnOperation};

/// `tool batch`.
#[derive(Debug, Args)]
pub(crate) struct BatchArguments {
    /// List of repositories, one a line: a path, a git URL, or an object in JSON with `repository` and, where this one
    /// differs, `operation` and `task`; `#` begins a comment
    #[arg(value_name = "FILE")]
    pub(crate) list: PathBuf,
    /// Operation to run on each repository
    #[arg(long, value_enum, default_value = "explain")]
    pub(crate) operation: TurnOperation,
    /// Task of architect and refactor, source file of test-gen, target or question of explain
    #[arg(long, value_name = "TEXT")]
    pub(crate) task: Option<String>,
    /// Folder for results, reports and clones; a batch that was interrupted goes on in it
    #[arg(long, value_name = "DIR", default_value = "batch-results")]
    pub(crate) results: PathBuf,
    /// Run only every N-th repository, beginning with the I-th
    #[arg(long, value_name = "I/N", default_value = "1/1")]
    pub(crate) shard: Shard,
    /// Sessions at the same time
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) parallel: u32,
    /// Send no request that could make all sessions together cost more than DOLLARS; each shard gets an equal part
    #[arg(long, value_name = "DOLLARS")]
    pub(crate) max_cost: Option<Dollars>,
    /// Run repositories again whose result is a failure
    #[arg(long)]
    pub(crate) retry_failed: bool,
    /// Make the summary of all results in the folder again, and run nothing
    #[arg(long, conflicts_with = "retry_failed")]
    pub(crate) summarize: bool,
    #[command(flatten)]
    pub(crate) session: SessionFlags,
}

/// One part of a list that several machines share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shard {
    /// From 1.
    number: usize,
    count: usize,
}

/// Shards of a list. Above this each would have a handful of repositories even in a list of the largest length.
const SHARDS_MAX: usize = 10_000;

impl Shard {
    /// True for the items of this shard, by their position in the list, from 0.
    pub(crate) fn holds(self, position: usize) -> bool {
        position % self.count == self.number - 1
    }

    /// Number of shards.
    pub(crate) fn count(self) -> usize {
        self.count
    }

    /// `2-of-4`, for names of files.
    pub(crate) fn name(self) -> String {
        format!("{}-of-{}", self.number, self.count)
    }
}

impl std::str::FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || format!("give I/N with I from 1 to N, and N up to {SHARDS_MAX}; for example 2/4");
        let (number, count) = text.split_once('/').ok_or_else(wrong)?;
        let number: usize = number.parse().map_err(|_| wrong())?;
        let count: usize = count.parse().map_err(|_| wrong())?;
        if (1..=SHARDS_MAX).contains(&count) && (1..=count).contains(&number) {
            Ok(Self { number, count })
        } else {
            Err(wrong())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shards_of_a_list_hold_each_item_once() {
        let shards: Vec<Shard> = ["1/3", "2/3", "3/3"]
            .iter()
            .map(|text| text.parse().expect("a shard"))
            .collect();
        for position in 0..10 {
            assert_eq!(shards.iter().filter(|shard| shard.holds(position)).count(), 1);
        }
        assert_eq!((shards[1].name(), shards[1].count()), ("2-of-3".to_owned(), 3));
        for wrong in ["0/3", "4/3", "1/0", "1", "a/b", "1/10001", "-1/2"] {
            assert!(wrong.parse::<Shard>().is_err(), "{wrong}");
        }
    }
}
