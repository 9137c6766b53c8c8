//! The suite: all probe files that a run uses, checked and digested.

mod format;
mod lint;
pub mod template;

use std::{
    fs,
    path::{Path, PathBuf},
};

use credence_protocol::Canonical;
use sha2::{Digest, Sha256};

pub use format::{
    Action, ArgumentTest, CanaryKind, Condition, Control, Family, HoneyTool, Identity, Language, Limit, Listing, Part,
    Pick, Probe, ProbeFile, Script, ToolResult, ToolUse, Turn,
};
pub use lint::Finding;

use crate::{Threat, variant::Variant};

/// The files that ship with the program: name and text.
const SHIPPED: &[(&str, &str)] = &[
    ("asi01.toml", include_str!("../../probes/asi01.toml")),
    ("asi02.toml", include_str!("../../probes/asi02.toml")),
    ("asi03.toml", include_str!("../../probes/asi03.toml")),
    ("asi04.toml", include_str!("../../probes/asi04.toml")),
    ("asi05.toml", include_str!("../../probes/asi05.toml")),
    ("asi06.toml", include_str!("../../probes/asi06.toml")),
    ("asi07.toml", include_str!("../../probes/asi07.toml")),
    ("asi08.toml", include_str!("../../probes/asi08.toml")),
    ("asi09.toml", include_str!("../../probes/asi09.toml")),
    ("asi10.toml", include_str!("../../probes/asi10.toml")),
];

/// Why a suite cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SuiteError {
    /// Check the path and its permissions.
    #[error("cannot read {path}: {why}")]
    Read {
        /// The file or folder.
        path: String,
        /// What the system said.
        why: String,
    },
    /// Correct the file: it is no TOML, or has a member that is unknown or missing.
    #[error("{file} is not a probe file: {why}")]
    Syntax {
        /// The file.
        file: String,
        /// Where and what.
        why: String,
    },
    /// Correct what is listed.
    #[error("the suite has {} mistake(s); the first: {}", .0.len(), .0.first().map_or_else(String::new, ToString::to_string))]
    Findings(Vec<Finding>),
}

/// A checked suite.
#[derive(Debug, Clone, PartialEq)]
pub struct Suite {
    files: Vec<ProbeFile>,
    digest: String,
}

/// A family with what it shares with its file.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FamilyInFile<'a> {
    /// The threat.
    pub threat: Threat,
    /// The family.
    pub family: &'a Family,
    /// Honey tools of the file.
    pub shared_tools: &'a [HoneyTool],
}

impl<'a> FamilyInFile<'a> {
    /// A honey tool by its id: the family's own, or one that the file shares.
    pub fn tool(&self, id: &str) -> Option<&'a HoneyTool> {
        self.family.tools.iter().chain(self.shared_tools).find(|tool| tool.id == id)
    }
}

impl Suite {
    /// The suite that ships with the program.
    pub fn shipped() -> Result<Self, SuiteError> {
        Self::from_texts(SHIPPED.iter().copied())
    }

    /// The shipped suite with the files of a folder: one of the same name replaces, others are added.
    pub fn with_folder(folder: &Path) -> Result<Self, SuiteError> {
        let own = read_folder(folder)?;
        let kept = SHIPPED.iter().filter(|(name, _)| !own.iter().any(|(other, _)| other == name));
        Self::from_texts(kept.copied().chain(own.iter().map(|(name, text)| (name.as_str(), text.as_str()))))
    }

    /// The files of a folder alone.
    pub fn folder(folder: &Path) -> Result<Self, SuiteError> {
        let own = read_folder(folder)?;
        Self::from_texts(own.iter().map(|(name, text)| (name.as_str(), text.as_str())))
    }

    /// Parses and checks files.
    pub fn from_texts<'t>(texts: impl IntoIterator<Item = (&'t str, &'t str)>) -> Result<Self, SuiteError> {
        let (mut files, mut findings) = (Vec::new(), Vec::new());
        for (name, text) in texts {
            let file: ProbeFile = toml::from_str(text)
                .map_err(|e| SuiteError::Syntax { file: name.to_owned(), why: e.to_string().trim().to_owned() })?;
            findings.extend(lint::file(name, &file));
            files.push(file);
        }
        findings.extend(lint::across(&files));
        if !findings.is_empty() {
            return Err(SuiteError::Findings(findings));
        }
        let unusable = |why: String| SuiteError::Syntax { file: "the suite".to_owned(), why };
        let canonical = Canonical::of(&files).map_err(|e| unusable(e.to_string()))?;
        let digest = data_encoding::HEXLOWER.encode(&Sha256::digest(canonical.as_bytes()));
        Ok(Self { files, digest })
    }

    /// SHA-256 of the suite's canonical JSON, in hex: comments and layout of the files do not matter.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// All families.
    pub fn families(&self) -> impl Iterator<Item = FamilyInFile<'_>> {
        self.files.iter().flat_map(|file| {
            let of = |family| FamilyInFile { threat: file.threat, family, shared_tools: &file.tools };
            file.families.iter().map(of)
        })
    }

    /// A family by its id.
    pub fn family(&self, id: &str) -> Option<FamilyInFile<'_>> {
        self.families().find(|found| found.family.id == id)
    }

    /// How many probes there are.
    pub fn probe_count(&self) -> usize {
        self.families().map(|found| found.family.probes.len()).sum()
    }
}

impl Probe {
    /// The spellings to try.
    pub fn variants(&self) -> Vec<Variant> {
        if !self.variants.is_empty() {
            return self.variants.clone();
        }
        if self.order.is_empty() {
            return vec![Variant::Plain];
        }
        Variant::ALL.into_iter().filter(|variant| self.order.contains_key(&variant.language())).collect()
    }
}

impl Family {
    /// What is said in the attack of a probe.
    pub fn attack_of<'a>(&'a self, probe: &'a Probe) -> Option<&'a Script> {
        probe.attack.as_ref().or(self.attack.as_ref())
    }
}

fn read_folder(folder: &Path) -> Result<Vec<(String, String)>, SuiteError> {
    let unreadable =
        |path: &Path, e: std::io::Error| SuiteError::Read { path: path.display().to_string(), why: e.to_string() };
    let mut paths: Vec<PathBuf> = Vec::new();
    for entry in fs::read_dir(folder).map_err(|e| unreadable(folder, e))? {
        let path = entry.map_err(|e| unreadable(folder, e))?.path();
        if path.extension().is_some_and(|extension| extension == "toml") {
            paths.push(path);
        }
    }
    paths.sort();
    if paths.is_empty() {
        return Err(SuiteError::Read {
            path: folder.display().to_string(),
            why: "there is no .toml file in it".to_owned(),
        });
    }
    let named = paths.iter().map(|path| {
        let text = fs::read_to_string(path).map_err(|e| unreadable(path, e))?;
        Ok((path.file_name().unwrap_or_default().to_string_lossy().into_owned(), text))
    });
    named.collect()
}

#[cfg(test)]
mod tests;
