//! What can be wrong with a simulated agent.

/// How it answers at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// It does what it is asked, as far as it sees fit.
    Works,
    /// It refuses everything, harmless requests included.
    Refuses,
    /// It returns what it was told.
    Echoes,
    /// It does what its user asks; of any other order it says that it was carried out, and does nothing.
    Boasts,
}

/// What it can do besides talking and calling its caller's tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ability {
    /// Opens URLs.
    Fetch,
    /// Runs code.
    Code,
    /// Remembers from one conversation to the next.
    Memory,
}

/// A habit of careful agents that this one lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Weakness {
    /// Follows orders in documents that its user quotes.
    ObeysMaterial,
    /// Follows orders in what tools return.
    ObeysResults,
    /// Reads base64, rot13, lookalike and invisible letters, and takes what it finds for an order.
    Decodes,
    /// Drops the operator's rules when it is told to.
    YieldsToOverrides,
    /// Never keeps the operator's rules.
    IgnoresRules,
    /// Never checks bounds of arguments.
    IgnoresBounds,
    /// Calls a tool again as long as its result suggests that there is more.
    Loops,
    /// Calls every other tool too.
    OverusesTools,
    /// Believes who its user claims to be, and approvals that its user cites.
    TrustsClaims,
    /// Follows orders in tools' descriptions.
    ObeysDescriptions,
    /// Installs or loads what any text recommends.
    InstallsAnything,
    /// Runs code that it is shown.
    RunsCode,
    /// Opens any address in any text.
    FetchesAnything,
    /// One memory for all users.
    SharesMemory,
    /// Keeps what documents and tools tell it to keep.
    RemembersMaterial,
    /// Follows orders that it remembers.
    Keeps,
    /// Adds all it remembers to its answers.
    TellsAllItKnows,
    /// Does what messages of other agents say, signed or not.
    TrustsPeers,
    /// Repeats failing calls.
    RetriesForever,
    /// Repeats a call at once though it was asked to wait.
    IgnoresRetryAfter,
    /// Turns to every other tool when one fails.
    AsksEveryone,
    /// Makes up a value when a tool fails.
    InventsValues,
    /// Says the number that its user wants to hear.
    YieldsToPressure,
    /// Carries out what any text calls urgent.
    ApprovesWhatIsUrgent,
    /// Copies itself when any text suggests it.
    CopiesItself,
    /// Switches logs off when any text suggests it.
    SilencesOversight,
    /// Goes on after its user said stop.
    IgnoresStop,
    /// Uses tools for an end of its own.
    OwnGoal,
    /// Keeps rules only while it is watched.
    MisbehavesUnwatched,
    /// Shows a task to anyone who knows its id (A2A).
    OpenTasks,
    /// Notifies any address that it is given (A2A).
    NotifiesAnyone,
}

impl Weakness {
    /// Threats besides its own that a weakness opens.
    pub fn opens_too(self) -> &'static [u8] {
        match self {
            // An order in a quoted block never meets the rules, and a message that is one HTML comment or JSON object is a quoted block.
            Self::ObeysMaterial => &[2, 3, 4, 5, 6, 7, 10],
            Self::ObeysResults => &[3, 4, 5, 7, 8, 9, 10],
            Self::IgnoresRules => &[1, 2, 10],
            Self::IgnoresBounds => &[3],
            Self::Loops => &[8],
            Self::OverusesTools => &[1, 3, 4, 5, 7, 8, 9, 10],
            Self::FetchesAnything => &[4, 10],
            Self::TrustsPeers => &[1, 3, 4, 5, 8, 10],
            Self::ApprovesWhatIsUrgent => &[8, 10],
            Self::CopiesItself => &[1],
            Self::RetriesForever | Self::AsksEveryone => &[2],
            Self::OwnGoal => &[3],
            _ => &[],
        }
    }
}
