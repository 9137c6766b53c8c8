//! The MCP clients we know: where each keeps its servers, and under which member.
//!
//! | client | the user's file | the project's file | servers |
//! |---|---|---|---|
//! | Claude Desktop | `Claude/claude_desktop_config.json` | | `mcpServers` |
//! | Claude Code | `~/.claude.json` | `.mcp.json` | `mcpServers`, `projects.*.mcpServers` |
//! | Cursor | `~/.cursor/mcp.json` | `.cursor/mcp.json` | `mcpServers` |
//! | VS Code | `Code/User/mcp.json` | `.vscode/mcp.json` | `servers`; in a settings file `mcp.servers` |
//! | Windsurf | `~/.codeium/windsurf/mcp_config.json` | | `mcpServers` |
//! | Zed | `zed/settings.json` | `.zed/settings.json` | `context_servers` |
//! | Gemini CLI | `~/.gemini/settings.json` | `.gemini/settings.json` | `mcpServers` |
//! | Copilot CLI | `~/.copilot/mcp-config.json` | `.mcp.json` | `mcpServers` |
//! | Kiro | `~/.kiro/settings/mcp.json` | `.kiro/settings/mcp.json` | `mcpServers` |
//! | Cline | `Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json` | | `mcpServers` |
//! | Roo | `Code/User/globalStorage/rooveterinaryinc.roo-cline/settings/mcp_settings.json` | `.roo/mcp.json` | `mcpServers` |
//! | Codex | `~/.codex/config.toml` | `.codex/config.toml` | `mcp_servers` (TOML) |
//! | opencode | `~/.config/opencode/opencode.json` or `.jsonc` | `opencode.json` or `.jsonc` | `mcp.servers`; before version 2 `mcp` |
//! | goose | `~/.config/goose/config.yaml` | | `extensions` (YAML) |
//! | Continue | `~/.continue/config.yaml`, files in `~/.continue/mcpServers` | files in `.continue/mcpServers` | `mcpServers`, a list (YAML) |
//!
//! Continue's older `~/.continue/config.json` has servers in another form and is not rewritten ([`Client::older_file`]).
//!
//! A user's path without `~` is below the folder the system has for settings: `$XDG_CONFIG_HOME` or `~/.config` on
//! Linux, `~/Library/Application Support` on macOS, `%APPDATA%` on Windows.

use std::{collections::BTreeMap, env, fmt, fs, path::PathBuf, str::FromStr};

use crate::Error;

/// An MCP client whose configuration we know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Client {
    /// Anthropic's desktop application.
    ClaudeDesktop,
    /// Anthropic's command line.
    ClaudeCode,
    /// Cursor.
    Cursor,
    /// Visual Studio Code, stable or Insiders.
    VsCode,
    /// Windsurf.
    Windsurf,
    /// Zed.
    Zed,
    /// Google's command line.
    GeminiCli,
    /// GitHub's command line.
    CopilotCli,
    /// Kiro, editor and command line.
    Kiro,
    /// Cline, an extension of Visual Studio Code.
    Cline,
    /// Roo Code, an extension of Visual Studio Code.
    Roo,
    /// OpenAI's command line.
    Codex,
    /// opencode.
    OpenCode,
    /// goose.
    Goose,
    /// Continue, an extension of several editors.
    Continue,
}

/// Whose file a configuration is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// The user's own.
    User,
    /// The project's, often in version control: an executable's path written there reaches colleagues too.
    Project,
}

/// A file in which a client may keep its servers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// The file.
    pub path: PathBuf,
    /// Whose it is.
    pub scope: Scope,
}

/// The operating system, as far as it decides where files are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum System {
    /// Linux, and whatever keeps its files as Linux does.
    Linux,
    /// macOS.
    MacOs,
    /// Windows.
    Windows,
}

/// Where we are: what the places of configurations depend on.
#[derive(Debug, Clone)]
pub struct Environment {
    /// The operating system.
    pub system: System,
    /// The user's home folder.
    pub home: PathBuf,
    /// The project's folder.
    pub project: PathBuf,
    /// Folders named by environment variables.
    pub variables: BTreeMap<&'static str, PathBuf>,
}

/// The environment variables that move a configuration.
const VARIABLES: [&str; 6] =
    ["APPDATA", "LOCALAPPDATA", "XDG_CONFIG_HOME", "CLAUDE_CONFIG_DIR", "COPILOT_HOME", "CODEX_HOME"];

impl Environment {
    /// This process's environment, with the current folder as the project.
    pub fn current() -> Result<Self, Error> {
        let system = if cfg!(windows) {
            System::Windows
        } else if cfg!(target_os = "macos") {
            System::MacOs
        } else {
            System::Linux
        };
        let home = env::home_dir().filter(|home| home.is_absolute()).ok_or(Error::NoFolder { which: "home" })?;
        let project = env::current_dir().map_err(|_| Error::NoFolder { which: "current" })?;
        let set =
            |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute()).map(|path| (name, path));
        Ok(Self { system, home, project, variables: VARIABLES.into_iter().filter_map(set).collect() })
    }

    /// The folder a variable names, or one below the home folder.
    fn folder(&self, variable: &str, below_home: &str) -> PathBuf {
        self.variables.get(variable).cloned().unwrap_or_else(|| self.home.join(below_home))
    }

    /// The folder applications keep their settings in.
    fn settings(&self) -> PathBuf {
        match self.system {
            System::Linux => self.folder("XDG_CONFIG_HOME", ".config"),
            System::MacOs => self.home.join("Library/Application Support"),
            System::Windows => self.folder("APPDATA", "AppData/Roaming"),
        }
    }

    /// Claude Desktop comes to Windows as an MSIX package since 2026; then it reads its settings from the package's
    /// own folder only, whose name ends in the publisher's id.
    fn packaged_claude(&self) -> Vec<PathBuf> {
        let packages = self.folder("LOCALAPPDATA", "AppData/Local").join("Packages");
        let entries = fs::read_dir(packages).into_iter().flatten().flatten();
        let ours = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with("Claude_"));
        let mut folders: Vec<PathBuf> = ours.map(|entry| entry.path().join("LocalCache/Roaming/Claude")).collect();
        folders.sort();
        folders
    }
}

impl Client {
    /// Every client.
    pub const ALL: [Self; 15] = [
        Self::ClaudeDesktop,
        Self::ClaudeCode,
        Self::Cursor,
        Self::VsCode,
        Self::Windsurf,
        Self::Zed,
        Self::GeminiCli,
        Self::CopilotCli,
        Self::Kiro,
        Self::Cline,
        Self::Roo,
        Self::Codex,
        Self::OpenCode,
        Self::Goose,
        Self::Continue,
    ];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::ClaudeDesktop => "claude-desktop",
            Self::ClaudeCode => "claude-code",
            Self::Cursor => "cursor",
            Self::VsCode => "vscode",
            Self::Windsurf => "windsurf",
            Self::Zed => "zed",
            Self::GeminiCli => "gemini-cli",
            Self::CopilotCli => "copilot-cli",
            Self::Kiro => "kiro",
            Self::Cline => "cline",
            Self::Roo => "roo",
            Self::Codex => "codex",
            Self::OpenCode => "opencode",
            Self::Goose => "goose",
            Self::Continue => "continue",
        }
    }

    pub(crate) fn names() -> String {
        Self::ALL.map(Self::name).join(", ")
    }

    /// The members that hold servers, each as the path to it; `*` stands for every member of an object,
    /// and what ends in `[]` may be a list of servers with names.
    pub fn servers_at(self) -> &'static [&'static [&'static str]] {
        match self {
            Self::VsCode => &[&["servers"], &["mcp", "servers"]],
            Self::Zed => &[&["context_servers"]],
            Self::Codex => &[&["mcp_servers"]],
            // opencode.ai/docs/mcp-servers and, for version 2, opencode.ai/v2/docs/mcp-servers.
            Self::OpenCode => &[&["mcp"], &["mcp", "servers"]],
            Self::Goose => &[&["extensions"]],
            Self::Continue => &[&["mcpServers[]"]],
            // Servers of the local scope stand under the folder they are for.
            Self::ClaudeCode => &[&["mcpServers"], &["projects", "*", "mcpServers"]],
            _ => &[&["mcpServers"]],
        }
    }

    /// The files it may keep its servers in, whether they exist or not; the user's come before the project's.
    pub fn candidates(self, at: &Environment) -> Vec<Candidate> {
        let home = |path: &str| vec![at.home.join(path)];
        let (user, project): (Vec<PathBuf>, Option<&str>) = match self {
            Self::ClaudeDesktop => {
                let mut folders = if at.system == System::Windows { at.packaged_claude() } else { Vec::new() };
                folders.push(at.settings().join("Claude"));
                (folders.into_iter().map(|folder| folder.join("claude_desktop_config.json")).collect(), None)
            }
            Self::ClaudeCode => (vec![at.folder("CLAUDE_CONFIG_DIR", "").join(".claude.json")], Some(".mcp.json")),
            Self::Cursor => (home(".cursor/mcp.json"), Some(".cursor/mcp.json")),
            Self::VsCode => {
                let user = |edition: &str| at.settings().join(edition).join("User/mcp.json");
                (vec![user("Code"), user("Code - Insiders")], Some(".vscode/mcp.json"))
            }
            Self::Windsurf => (home(".codeium/windsurf/mcp_config.json"), None),
            Self::Zed => {
                // On macOS Zed keeps to `~/.config`, not to `Application Support`.
                let folder = match at.system {
                    System::MacOs => at.home.join(".config/zed"),
                    System::Linux => at.settings().join("zed"),
                    System::Windows => at.settings().join("Zed"),
                };
                (vec![folder.join("settings.json")], Some(".zed/settings.json"))
            }
            Self::GeminiCli => (home(".gemini/settings.json"), Some(".gemini/settings.json")),
            Self::CopilotCli => {
                (vec![at.folder("COPILOT_HOME", ".copilot").join("mcp-config.json")], Some(".mcp.json"))
            }
            Self::Kiro => (home(".kiro/settings/mcp.json"), Some(".kiro/settings/mcp.json")),
            Self::Cline => {
                let storage = at.settings().join("Code/User/globalStorage/saoudrizwan.claude-dev");
                (vec![storage.join("settings/cline_mcp_settings.json")], None)
            }
            Self::Roo => {
                let file = |edition: &str| {
                    let storage = at.settings().join(edition).join("User/globalStorage/rooveterinaryinc.roo-cline");
                    storage.join("settings/mcp_settings.json")
                };
                (vec![file("Code"), file("Code - Insiders")], Some(".roo/mcp.json"))
            }
            Self::Codex => (vec![at.folder("CODEX_HOME", ".codex").join("config.toml")], Some(".codex/config.toml")),
            // On every system below `~/.config`.
            Self::OpenCode => {
                let folder = at.folder("XDG_CONFIG_HOME", ".config").join("opencode");
                (vec![folder.join("opencode.json"), folder.join("opencode.jsonc")], None)
            }
            Self::Goose => {
                let folder = match at.system {
                    System::Windows => at.settings().join("Block/goose/config"),
                    System::Linux | System::MacOs => at.folder("XDG_CONFIG_HOME", ".config").join("goose"),
                };
                (vec![folder.join("config.yaml")], None)
            }
            Self::Continue => {
                let mut files = home(".continue/config.yaml");
                files.extend(blocks(&at.home.join(".continue/mcpServers")));
                (files, None)
            }
        };
        let user = user.into_iter().map(|path| Candidate { path, scope: Scope::User });
        let mut all: Vec<Candidate> = user.collect();
        if let Some(path) = project.map(|below| at.project.join(below))
            && !all.iter().any(|known| known.path == path)
        {
            all.push(Candidate { path, scope: Scope::Project });
        }
        let several = match self {
            Self::OpenCode => {
                let names = ["opencode.json", "opencode.jsonc", ".opencode/opencode.json", ".opencode/opencode.jsonc"];
                names.map(|name| at.project.join(name)).into()
            }
            Self::Continue => blocks(&at.project.join(".continue/mcpServers")),
            _ => Vec::new(),
        };
        for path in several {
            if !all.iter().any(|known| known.path == path) {
                all.push(Candidate { path, scope: Scope::Project });
            }
        }
        all
    }

    /// A file of an older version with servers in a form that is not rewritten, where the client still reads it.
    pub fn older_file(self, at: &Environment) -> Option<PathBuf> {
        let folder = at.home.join(".continue");
        // Beside the newer file the older one is not read.
        let (older, newer) = (folder.join("config.json"), folder.join("config.yaml"));
        (self == Self::Continue && older.exists() && !newer.exists()).then_some(older)
    }

    /// Those of its [candidates](Self::candidates) that exist; at least one, or an error that says where was looked.
    pub fn find(self, at: &Environment) -> Result<Vec<Candidate>, Error> {
        let (found, missing): (Vec<_>, Vec<_>) = self.candidates(at).into_iter().partition(|file| file.path.exists());
        if found.is_empty() {
            return Err(Error::NotFound { looked: missing.into_iter().map(|file| file.path).collect() });
        }
        Ok(found)
    }
}

/// The files of a folder in which Continue looks for servers.
fn blocks(folder: &std::path::Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let known = |path: &PathBuf| {
        path.extension().and_then(|end| end.to_str()).is_some_and(|end| ["yaml", "yml", "json"].contains(&end))
    };
    let mut files: Vec<PathBuf> = entries.filter(known).collect();
    files.sort();
    files
}

impl fmt::Display for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Client {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        let known = Self::ALL.into_iter().find(|client| client.name() == name);
        known.ok_or_else(|| Error::UnknownClient { name: name.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(system: System) -> Environment {
        Environment { system, home: "/home/ada".into(), project: "/src/engine".into(), variables: BTreeMap::new() }
    }

    fn paths(client: Client, at: &Environment) -> Vec<String> {
        client.candidates(at).iter().map(|file| file.path.display().to_string().replace('\\', "/")).collect()
    }

    #[test]
    fn names_are_distinct_and_parse_back() {
        for client in Client::ALL {
            assert_eq!(client.to_string().parse::<Client>().unwrap(), client);
        }
        let error = "emacs".parse::<Client>().unwrap_err().to_string();
        assert!(error.contains("\"emacs\"") && error.contains("claude-desktop, claude-code"), "{error}");
    }

    #[test]
    fn an_older_file_counts_where_no_newer_one_takes_its_place() {
        let home = tempfile::tempdir().unwrap();
        let at = Environment { home: home.path().to_owned(), ..environment(System::Linux) };
        let folder = home.path().join(".continue");
        fs::create_dir(&folder).unwrap();
        assert_eq!(Client::Continue.older_file(&at), None);
        fs::write(folder.join("config.json"), "{}").unwrap();
        assert_eq!(Client::Continue.older_file(&at), Some(folder.join("config.json")));
        assert_eq!(Client::Cursor.older_file(&at), None);
        fs::write(folder.join("config.yaml"), "").unwrap();
        assert_eq!(Client::Continue.older_file(&at), None);
    }

    #[test]
    fn each_system_has_its_own_places() {
        let linux = environment(System::Linux);
        assert_eq!(paths(Client::ClaudeDesktop, &linux), ["/home/ada/.config/Claude/claude_desktop_config.json"]);
        assert_eq!(
            paths(Client::Zed, &linux),
            ["/home/ada/.config/zed/settings.json", "/src/engine/.zed/settings.json"]
        );
        let vscode = ["/home/ada/.config/Code/User/mcp.json", "/home/ada/.config/Code - Insiders/User/mcp.json"];
        assert_eq!(paths(Client::VsCode, &linux), [vscode[0], vscode[1], "/src/engine/.vscode/mcp.json"]);

        let mac = environment(System::MacOs);
        let desktop = "/home/ada/Library/Application Support/Claude/claude_desktop_config.json";
        assert_eq!(paths(Client::ClaudeDesktop, &mac), [desktop]);
        assert_eq!(paths(Client::Zed, &mac)[0], "/home/ada/.config/zed/settings.json");

        let mut windows = environment(System::Windows);
        windows.variables.insert("APPDATA", "/roaming".into());
        assert_eq!(paths(Client::Zed, &windows)[0], "/roaming/Zed/settings.json");
        assert_eq!(paths(Client::ClaudeDesktop, &windows), ["/roaming/Claude/claude_desktop_config.json"]);
    }

    #[test]
    fn variables_move_the_files() {
        let mut at = environment(System::Linux);
        assert_eq!(paths(Client::ClaudeCode, &at), ["/home/ada/.claude.json", "/src/engine/.mcp.json"]);
        at.variables.insert("XDG_CONFIG_HOME", "/xdg".into());
        at.variables.insert("CLAUDE_CONFIG_DIR", "/claude".into());
        at.variables.insert("COPILOT_HOME", "/copilot".into());
        assert_eq!(paths(Client::ClaudeDesktop, &at), ["/xdg/Claude/claude_desktop_config.json"]);
        assert_eq!(paths(Client::ClaudeCode, &at)[0], "/claude/.claude.json");
        assert_eq!(paths(Client::CopilotCli, &at)[0], "/copilot/mcp-config.json");
    }

    #[test]
    fn newer_clients_have_their_places() {
        let mut at = environment(System::Linux);
        assert_eq!(paths(Client::Codex, &at), ["/home/ada/.codex/config.toml", "/src/engine/.codex/config.toml"]);
        assert_eq!(paths(Client::Goose, &at), ["/home/ada/.config/goose/config.yaml"]);
        assert_eq!(paths(Client::OpenCode, &at)[0], "/home/ada/.config/opencode/opencode.json");
        assert!(paths(Client::OpenCode, &at).contains(&"/src/engine/opencode.json".to_owned()));
        assert_eq!(paths(Client::Continue, &at), ["/home/ada/.continue/config.yaml"]);
        let roo = "User/globalStorage/rooveterinaryinc.roo-cline/settings/mcp_settings.json";
        assert_eq!(paths(Client::Roo, &at)[0], format!("/home/ada/.config/Code/{roo}"));
        assert_eq!(paths(Client::Roo, &at)[2], "/src/engine/.roo/mcp.json");
        at.variables.insert("CODEX_HOME", "/codex".into());
        assert_eq!(paths(Client::Codex, &at)[0], "/codex/config.toml");
        let folder = tempfile::tempdir().unwrap();
        at.project = folder.path().to_owned();
        fs::create_dir_all(at.project.join(".continue/mcpServers")).unwrap();
        for name in ["b.yaml", "a.json", "notes.txt"] {
            fs::write(at.project.join(".continue/mcpServers").join(name), "").unwrap();
        }
        let found = Client::Continue.candidates(&at);
        assert_eq!(found.len(), 3);
        assert!(found[1].path.ends_with("a.json") && found[2].scope == Scope::Project);
    }

    #[test]
    fn a_packaged_claude_desktop_is_looked_at_first() {
        let local = tempfile::tempdir().unwrap();
        fs::create_dir_all(local.path().join("Packages/Claude_abc")).unwrap();
        fs::create_dir_all(local.path().join("Packages/Other_abc")).unwrap();
        let mut at = environment(System::Windows);
        at.variables.insert("LOCALAPPDATA", local.path().into());
        let packaged = "Packages/Claude_abc/LocalCache/Roaming/Claude/claude_desktop_config.json";
        let found = Client::ClaudeDesktop.candidates(&at);
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].path, local.path().join(packaged));
    }

    #[test]
    fn only_files_that_exist_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let mut at = environment(System::Linux);
        at.home = folder.path().join("home");
        at.project = folder.path().join("project");
        let error = Client::Cursor.find(&at).unwrap_err().to_string().replace('\\', "/");
        for said in ["home/.cursor/mcp.json", "project/.cursor/mcp.json", "--config FILE"] {
            assert!(error.contains(said), "{error}");
        }
        fs::create_dir_all(at.project.join(".cursor")).unwrap();
        fs::write(at.project.join(".cursor/mcp.json"), "{}").unwrap();
        let found = Client::Cursor.find(&at).unwrap();
        assert_eq!(found, [Candidate { path: at.project.join(".cursor/mcp.json"), scope: Scope::Project }]);
    }

    #[test]
    fn a_project_in_the_home_folder_is_not_listed_twice() {
        let mut at = environment(System::Linux);
        at.project = at.home.clone();
        assert_eq!(paths(Client::Cursor, &at), ["/home/ada/.cursor/mcp.json"]);
    }
}
