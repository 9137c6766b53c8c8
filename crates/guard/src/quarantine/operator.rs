//! Who runs a command: the user, as the system numbers it, and the terminal.

use std::{fs, io::IsTerminal, path::Path};

use credence_receipts::Operator;
use rustix::process::geteuid;

/// What `/proc/self/loginuid` holds where nobody has logged in.
const NOBODY: u32 = u32::MAX;

/// The user of this process and its terminal; and, in words, the user who logged in where that is another one: `sudo` does not change it.
pub(crate) fn current() -> (Operator, Option<String>) {
    let uid = geteuid().as_raw();
    let terminal = [
        (std::io::stdin().is_terminal(), 0),
        (std::io::stderr().is_terminal(), 2),
        (std::io::stdout().is_terminal(), 1),
    ];
    let descriptor = terminal.into_iter().find(|(is, _)| *is).map(|(_, descriptor)| descriptor);
    let terminal = descriptor.map(|descriptor| {
        let link = fs::read_link(format!("/proc/self/fd/{descriptor}"));
        link.map_or_else(|_| "unknown".to_owned(), |path| path.display().to_string())
    });
    let login = fs::read_to_string("/proc/self/loginuid").ok().and_then(|text| text.trim().parse::<u32>().ok());
    let login = login.filter(|login| *login != uid && *login != NOBODY);
    (Operator { terminal, uid, user: user_name(uid) }, login.map(|login| format!("logged in as uid {login}")))
}

/// The name of a user in the system's list.
pub(super) fn user_name(uid: u32) -> Option<String> {
    name_in(&fs::read_to_string(Path::new("/etc/passwd")).ok()?, uid)
}

fn name_in(passwd: &str, uid: u32) -> Option<String> {
    let wanted = uid.to_string();
    let mut users = passwd.lines().map(|line| line.split(':').collect::<Vec<_>>());
    users.find(|user| user.get(2) == Some(&wanted.as_str())).map(|user| user[0].to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_named_by_their_number() {
        let passwd = "root:x:0:0:root:/root:/bin/sh\nbroken\nann:x:1000:1000::/home/ann:/bin/sh\n";
        assert_eq!(name_in(passwd, 1000).as_deref(), Some("ann"));
        assert_eq!(name_in(passwd, 100), None);
        assert_eq!(current().0.uid, geteuid().as_raw());
    }
}
