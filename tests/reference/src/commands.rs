//! A command line: the help text of each of its commands.

use clap::Command;

/// Columns of a help text.
const WIDTH: usize = 100;

/// A section for the program and for each of its commands, with the text of `--help`.
#[must_use]
pub fn commands(command: Command) -> String {
    let mut command = prepared(command);
    command.build();
    let mut page = String::new();
    write_section(&mut page, &mut command);
    page
}

/// Without what depends on the machine: the width of its terminal and its environment.
fn prepared(command: Command) -> Command {
    command
        .term_width(WIDTH)
        .mut_args(|argument| argument.hide_env_values(true))
        .mut_subcommands(prepared)
}

fn write_section(page: &mut String, command: &mut Command) {
    let name = command.get_bin_name().unwrap_or_else(|| command.get_name());
    page.push_str(&format!("## `{name}`\n\n```text\n"));
    let help = command.render_long_help().to_string();
    for line in help.trim_end().lines() {
        page.push_str(line.trim_end());
        page.push('\n');
    }
    page.push_str("```\n\n");
    for subcommand in command.get_subcommands_mut() {
        if !subcommand.is_hide_set() && subcommand.get_name() != "help" {
            write_section(page, subcommand);
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Arg;

    use super::*;

    #[test]
    fn each_command_has_a_section_with_its_help() {
        let flag = Arg::new("home").long("home").env("HOME").help("Where to");
        let inner = Command::new("go").about("Goes there").arg(flag);
        let hidden = Command::new("secret").hide(true);
        let page = commands(Command::new("x").subcommand(inner).subcommand(hidden));
        assert!(page.starts_with("## `x`\n\n```text\n"), "{page}");
        assert!(
            page.contains("## `x go`\n\n```text\nGoes there\n"),
            "{page}"
        );
        assert!(page.contains("[env: HOME]"), "no value: {page}");
        assert!(!page.contains("secret"), "{page}");
    }
}
