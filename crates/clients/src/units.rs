//! systemd units for guards that run as a user of their own.
//!
//! For the server `fs` there are four: a socket and a service for the guard, which the agent's user may connect to, and the same for
//! the tool server, which only the guard may connect to. A connection starts one process of each, as a client's start of the server
//! did before. Variables of the server's environment are in a file that only root can read: they may be secrets.

use std::{
    fmt::Write,
    path::{Path, PathBuf},
};

use crate::ServerCommand;

/// Who runs what.
#[derive(Debug, Clone)]
pub struct Isolation {
    /// The `credence` program.
    pub executable: PathBuf,
    /// Flags of the guards.
    pub flags: Vec<String>,
    /// The user of the agent, who may connect.
    pub caller: String,
    /// The guards' own user.
    pub guard_user: String,
    /// The user of the tool servers.
    pub tool_user: String,
    /// Where the sockets are.
    pub run: PathBuf,
}

/// A file to be installed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnitFile {
    /// Its name.
    pub name: String,
    /// Its text.
    pub text: String,
    /// Only root may read it.
    pub secret: bool,
}

/// Where the guards keep their state, below `/var/lib`.
const STATE: &str = "credence-guard";

impl Isolation {
    /// The folder of the guards' state.
    pub fn state(&self) -> PathBuf {
        Path::new("/var/lib").join(STATE)
    }

    /// The file by which `systemd-sysusers` makes the guards' user.
    pub fn sysusers(&self) -> UnitFile {
        let text = format!("u {} - \"Credence guards\" {}\n", self.guard_user, self.state().display());
        UnitFile { name: "credence-guard.conf".to_owned(), text, secret: false }
    }

    /// The units of one server. `program` is the path of its program.
    pub fn units(&self, slug: &str, program: &Path, command: &ServerCommand) -> Vec<UnitFile> {
        let (guard, tool) = (format!("credence-guard-{slug}"), format!("credence-tool-{slug}"));
        let (guard_user, tool_user) = (&self.guard_user, &self.tool_user);
        let socket = |folder: &str| self.run.join(folder).join(format!("{slug}.sock")).display().to_string();
        let guarded = [&self.executable.display().to_string(), "guard", "--state", &self.state().display().to_string()]
            .map(str::to_owned)
            .into_iter()
            .chain(["--name".to_owned(), slug.to_owned()])
            .chain(self.flags.iter().cloned())
            .chain(["--connect".to_owned(), socket("tool")]);
        let started = [program.display().to_string()].into_iter().chain(command.words.iter().skip(1).cloned());
        let env_file = format!("{tool}.env");
        let file = |name: String, text: String| UnitFile { name, text, secret: false };
        let mut units = vec![
            file(format!("{guard}.socket"), socket_unit(&format!("guard of {slug}"), &socket("guard"), &self.caller)),
            file(
                format!("{guard}@.service"),
                service_unit(
                    &format!("Credence guard of {slug}"),
                    guard_user,
                    &guarded.map(|word| quoted(&word)).collect::<Vec<_>>().join(" "),
                    &format!(
                        "StateDirectory={STATE}\nStateDirectoryMode=0700\nUMask=0077\nProtectHome=yes\nProtectSystem=strict\n\
                         PrivateTmp=yes\nPrivateDevices=yes\nProtectProc=invisible\nLimitCORE=0\n\
                         RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6\n"
                    ),
                ),
            ),
            file(format!("{tool}.socket"), socket_unit(&format!("tool server {slug}"), &socket("tool"), guard_user)),
            file(
                format!("{tool}@.service"),
                service_unit(
                    &format!("Tool server {slug}"),
                    tool_user,
                    &started.map(|word| quoted(&word)).collect::<Vec<_>>().join(" "),
                    &if command.env.is_empty() {
                        String::new()
                    } else {
                        format!("EnvironmentFile=/etc/credence/{env_file}\n")
                    },
                ),
            ),
        ];
        if !command.env.is_empty() {
            let text = command.env.iter().fold(String::new(), |mut text, (name, value)| {
                let _ = writeln!(text, "{name}={}", env_quoted(value));
                text
            });
            units.push(UnitFile { name: env_file, text, secret: true });
        }
        units
    }
}

fn socket_unit(what: &str, path: &str, user: &str) -> String {
    format!(
        "[Unit]\nDescription=Connections to the {what}\n\n[Socket]\nListenStream={path}\nAccept=yes\nSocketUser={user}\n\
         SocketMode=0600\nDirectoryMode=0755\nMaxConnections=64\n\n[Install]\nWantedBy=sockets.target\n"
    )
}

fn service_unit(what: &str, user: &str, command: &str, more: &str) -> String {
    format!(
        "[Unit]\nDescription={what}\nCollectMode=inactive-or-failed\n\n[Service]\nUser={user}\nExecStart={command}\n\
         StandardInput=socket\nStandardOutput=socket\nStandardError=journal\nNoNewPrivileges=yes\n{more}"
    )
}

/// A word of a command line, as systemd reads it.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:=@,".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    let mut text = String::from("\"");
    for c in word.chars() {
        match c {
            '"' | '\\' => text.extend(['\\', c]),
            '%' => text.push_str("%%"),
            '$' => text.push_str("$$"),
            '\n' => text.push_str("\\n"),
            '\t' => text.push_str("\\t"),
            c => text.push(c),
        }
    }
    text + "\""
}

/// A value in a file of variables, as systemd reads it.
fn env_quoted(value: &str) -> String {
    let escaped =
        value.chars().flat_map(|c| matches!(c, '"' | '\\' | '$' | '`').then_some('\\').into_iter().chain([c]));
    format!("\"{}\"", escaped.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn isolation() -> Isolation {
        Isolation {
            executable: "/usr/bin/credence".into(),
            flags: vec!["--mode".to_owned(), "enforce".to_owned()],
            caller: "ann".to_owned(),
            guard_user: "credence-guard".to_owned(),
            tool_user: "tools".to_owned(),
            run: "/run/credence".into(),
        }
    }

    #[test]
    fn each_part_has_its_user_and_only_its_caller_may_connect() {
        let words = ["npx", "-y", "a b", "100% $HOME \"x\""].map(str::to_owned).to_vec();
        let command = ServerCommand { words, env: vec![("TOKEN".to_owned(), "it's".to_owned())] };
        let units = isolation().units("fs", Path::new("/usr/bin/npx"), &command);
        let text = |name: &str| units.iter().find(|unit| unit.name == name).unwrap_or_else(|| panic!("{name}"));
        let guard = &text("credence-guard-fs@.service").text;
        assert!(guard.contains(
            "User=credence-guard\nExecStart=/usr/bin/credence guard --state /var/lib/credence-guard --name fs --mode enforce --connect \
             /run/credence/tool/fs.sock\n"
        ));
        assert!(text("credence-guard-fs.socket").text.contains("SocketUser=ann\nSocketMode=0600"));
        assert!(text("credence-tool-fs.socket").text.contains("SocketUser=credence-guard\nSocketMode=0600"));
        let tool = &text("credence-tool-fs@.service").text;
        assert!(tool.contains("User=tools\nExecStart=/usr/bin/npx -y \"a b\" \"100%% $$HOME \\\"x\\\"\"\n"), "{tool}");
        let env = text("credence-tool-fs.env");
        assert!(
            env.secret
                && env.text == "TOKEN=\"it's\"\n"
                && tool.contains("EnvironmentFile=/etc/credence/credence-tool-fs.env")
        );
        assert!(!units.iter().any(|unit| !unit.secret && unit.text.contains("it's")));
    }
}
