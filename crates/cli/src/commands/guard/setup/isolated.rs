//! `credence guard install --isolated`: units for guards that run as a user of their own.

use std::{
    collections::BTreeMap,
    env, fs,
    io::Write,
    os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
};

use anyhow::{Context, bail, ensure};
use credence_clients::{
    Change, Plan, ServerCommand,
    units::{Isolation, UnitFile},
};
use credence_guard::isolation::RUN_FOLDER;

use super::InstallArgs;

/// Writes the units of every server that comes under a guard, and says on standard error how to install them.
pub fn write_units(
    executable: &Path,
    args: &InstallArgs,
    plan: &dyn Fn(&Path) -> anyhow::Result<Plan>,
) -> anyhow::Result<()> {
    let caller =
        env::var("USER").or_else(|_| env::var("LOGNAME")).context("neither USER nor LOGNAME says who you are")?;
    ensure!(caller != "root", "run this as the user of the agent: root is not kept from anything");
    let installed = Path::new("/usr/local/bin/credence");
    let guards_run = match &args.program {
        Some(program) => program.as_path(),
        None if only_root_writes(executable) => executable,
        None => installed,
    };
    let isolation = Isolation {
        executable: guards_run.to_owned(),
        flags: args.flags.clone(),
        tool_user: args.tool_user.clone().unwrap_or_else(|| caller.clone()),
        caller,
        guard_user: args.guard_user.clone(),
        run: RUN_FOLDER.into(),
    };
    for user in [&isolation.caller, &isolation.tool_user] {
        ensure!(
            *user != isolation.guard_user,
            "{user} cannot be the guards' user too: a user of its own is what keeps others from its key (--guard-user, --tool-user)"
        );
    }
    let (mut files, mut sockets) = (vec![isolation.sysusers()], Vec::new());
    let mut known: BTreeMap<String, ServerCommand> = BTreeMap::new();
    for file in args.which.files()? {
        for server in plan(&file)?.servers {
            let (Change::Guarded { slug }, Some(command)) = (&server.change, &server.command) else { continue };
            let words = command.words.iter().chain(command.env.iter().flat_map(|(name, value)| [name, value]));
            ensure!(
                !words.clone().any(|word| word.chars().any(|c| c.is_control() && !matches!(c, '\n' | '\t'))),
                "the command of '{}' has a control character, which no unit can hold",
                server.name
            );
            match known.insert(slug.clone(), command.clone()) {
                Some(other) if other == *command => continue,
                Some(_) => {
                    bail!("two servers called '{}' are started differently: give one of them another name", server.name)
                }
                None => {}
            }
            let program = program(&command.words[0])?;
            files.extend(isolation.units(slug, &program, command));
            sockets.extend([format!("credence-tool-{slug}.socket"), format!("credence-guard-{slug}.socket")]);
        }
    }
    if sockets.is_empty() {
        bail!("no server would come under a guard: there is nothing to write units for");
    }
    if !args.dry_run {
        write(&args.units, &files)?;
    }
    if isolation.executable == installed && executable != installed {
        eprintln!("the guards' program must be one that only root can write:");
        eprintln!("  sudo install -m 755 {} {}", executable.display(), installed.display());
    }
    eprint!("{}", instructions(&args.units, &isolation, &files, &sockets));
    Ok(())
}

/// Whether only root can change a program, by its own permissions and those of every folder above it; homes are hidden from guards.
fn only_root_writes(program: &Path) -> bool {
    let Ok(path) = fs::canonicalize(program) else { return false };
    let at_home = ["/home", "/root"].iter().any(|home| path.starts_with(home));
    let of_root = |path: &Path| fs::metadata(path).is_ok_and(|of| of.uid() == 0 && of.mode() & 0o022 == 0);
    !at_home && path.ancestors().all(of_root)
}

fn write(folder: &Path, files: &[UnitFile]) -> anyhow::Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    for UnitFile { name, text, secret } in files {
        let path = folder.join(name);
        let mode = if *secret { 0o600 } else { 0o644 };
        let mut options = fs::OpenOptions::new();
        let written = options.write(true).create(true).truncate(true).mode(mode).open(&path).and_then(|mut file| {
            file.set_permissions(fs::Permissions::from_mode(mode))?;
            file.write_all(text.as_bytes())
        });
        written.with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

fn instructions(folder: &Path, isolation: &Isolation, files: &[UnitFile], sockets: &[String]) -> String {
    let folder = folder.display();
    let secrets = files.iter().filter(|file| file.secret).map(|file| format!("{folder}/{}", file.name));
    let secrets: Vec<String> = secrets.collect();
    let mut text = format!("units in {folder}; look at them, then install them:\n");
    text +=
        &format!("  sudo install -m 644 {folder}/credence-guard.conf /usr/lib/sysusers.d/ && sudo systemd-sysusers\n");
    if !secrets.is_empty() {
        text += &format!("  sudo install -D -m 600 -t /etc/credence {}\n", secrets.join(" "));
    }
    text += &format!("  sudo install -m 644 {folder}/*.socket {folder}/*.service /etc/systemd/system/\n");
    text += &format!("  sudo systemctl daemon-reload && sudo systemctl enable --now {}\n", sockets.join(" "));
    text += &format!(
        "receipts are then read by {user}: sudo -u {user} credence receipts check --state {state} TRANSCRIPT\n",
        user = isolation.guard_user,
        state = isolation.state().display()
    );
    text
}

/// Where a program is: systemd wants its whole path.
fn program(command: &str) -> anyhow::Result<PathBuf> {
    let executable =
        |path: &Path| fs::metadata(path).is_ok_and(|of| of.is_file() && of.permissions().mode() & 0o111 != 0);
    if command.contains('/') {
        let path = fs::canonicalize(command).with_context(|| format!("the server's program {command}"))?;
        return Ok(path);
    }
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path)
        .map(|folder| folder.join(command))
        .find(|path| path.is_absolute() && executable(path))
        .with_context(|| format!("the server's program '{command}' is not in PATH: systemd needs its whole path"))
}
