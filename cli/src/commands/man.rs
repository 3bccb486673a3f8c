//! `tool man`: manual pages, generated from the help.

use std::path::Path;
use std::process::ExitCode;

use clap::CommandFactory;

use crate::args::CliArguments;
use crate::error::Error;
use crate::output::CommandOutput;
use tool_core::api::ErrorKind;

/// Prints the page of `tool`, or writes one page for each command into a folder.
pub(crate) fn write_pages(folder: Option<&Path>, output: CommandOutput) -> Result<ExitCode, Error> {
    match folder {
        None => print_page(output)?,
        Some(folder) => {
            std::fs::create_dir_all(folder)
                .map_err(|error| Error::on_file("Could not make the folder", folder, &error))?;
            clap_mangen::generate_to(CliArguments::command(), folder)
                .map_err(|error| Error::on_file("Could not write manual pages into", folder, &error))?;
            output.progress(&format!(
                "wrote tool.1 and a page for each command into {}",
                folder.display()
            ));
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn print_page(output: CommandOutput) -> Result<(), Error> {
    let mut page = Vec::new();
    clap_mangen::Man::new(CliArguments::command())
        .render(&mut page)
        .map_err(|error| Error::new(ErrorKind::Output, format!("The manual page could not be made: {error}")))?;
    output.answer(&String::from_utf8_lossy(&page))
}
