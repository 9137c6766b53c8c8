//! Accounts of the registry and of ATOM, by their offsets. Owner, discriminator, size and asset are checked before anything is read.

use super::{Pubkey, bytes::Cursor, node::Account};
use crate::ChainError;

/// The first eight bytes of SHA-256 of `account:AtomStats`, and of `account:AgentAccount`.
const STATS_DISCRIMINATOR: [u8; 8] = [0xbe, 0xbb, 0x32, 0x3b, 0xcb, 0x27, 0x88, 0xf4];
const AGENT_DISCRIMINATOR: [u8; 8] = [0xf1, 0x77, 0x45, 0x8c, 0xe9, 0x09, 0x70, 0x32];
const STATS_BYTES: usize = 561;
/// An agent without wallet, parent, address, name and pointer; and one with the longest of each, with room to grow.
const AGENT_BYTES: std::ops::RangeInclusive<usize> = 266..=2048;
const MAX_URI_BYTES: usize = 250;
/// Quality and confidence are in hundredths of a percent.
pub(super) const FULL: u16 = 10_000;

/// What ATOM says of an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AtomStats {
    /// Feedback that was given, with a score.
    pub feedback_count: u64,
    /// 0 to 10,000; 10,000 is best.
    pub quality: u16,
    /// 0 to 100; 0 is best.
    pub risk: u8,
    /// The share of distinct clients, of 255.
    pub diversity: u8,
    /// 0 (unrated) to 4 (platinum), after its waiting time.
    pub tier: u8,
    /// 0 to 10,000.
    pub confidence: u16,
    /// The version of the layout.
    pub schema: u8,
}

/// What the registry says of an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentAccount {
    /// The collection that it belongs to.
    pub collection: Pubkey,
    /// Who registered it.
    pub creator: Pubkey,
    /// Who holds it.
    pub owner: Pubkey,
    /// Whether feedback counts for ATOM.
    pub atom_enabled: bool,
    /// Its wallet.
    pub wallet: Option<Pubkey>,
    /// Feedback that was given; the index of the next one.
    pub feedback_count: u64,
    /// Revocations.
    pub revoke_count: u64,
    /// Where its registration file is. Text of others.
    pub uri: String,
}

impl AtomStats {
    /// Reads the statistics of `asset`.
    pub(super) fn parse(account: &Account, program: Pubkey, asset: Pubkey) -> Result<Self, ChainError> {
        let what = "the ATOM statistics";
        let data = checked(account, program, what, STATS_DISCRIMINATOR, STATS_BYTES..=STATS_BYTES)?;
        let at = |offset: usize| Cursor(data.get(offset..).unwrap_or_default());
        let read = || {
            let mut output = at(547);
            let (quality, risk, diversity) = (output.u16()?, output.u8()?, output.u8()?);
            let stats = Self {
                feedback_count: at(88).u64()?,
                quality,
                risk,
                diversity,
                tier: at(555).u8()?,
                confidence: at(557).u16()?,
                schema: at(560).u8()?,
            };
            Some((at(40).key()?, stats))
        };
        let (of, stats) = read().ok_or_else(|| malformed(what, "do not have the layout that is known"))?;
        if of != asset {
            return Err(malformed(what, "are those of another agent"));
        }
        if stats.quality > FULL || stats.confidence > FULL || stats.risk > 100 || stats.tier > 4 {
            return Err(malformed(what, "are out of their range"));
        }
        Ok(stats)
    }
}

impl AgentAccount {
    /// Reads the registration of `asset`.
    pub(super) fn parse(account: &Account, program: Pubkey, asset: Pubkey) -> Result<Self, ChainError> {
        let what = "the registration's account";
        let data = checked(account, program, what, AGENT_DISCRIMINATOR, AGENT_BYTES)?;
        let mut data = Cursor(data.get(AGENT_DISCRIMINATOR.len()..).unwrap_or_default());
        let read = |data: &mut Cursor<'_>| {
            let (collection, creator, owner, of) = (data.key()?, data.key()?, data.key()?, data.key()?);
            let _bump = data.u8()?;
            let atom_enabled = data.flag()?;
            let wallet = data.option(Cursor::key)?;
            // Digest and count of feedback, responses and revocations.
            let (_, feedback_count) = (data.hash()?, data.u64()?);
            let (_, _responses) = (data.hash()?, data.u64()?);
            let (_, revoke_count) = (data.hash()?, data.u64()?);
            let (_parent, _locked) = (data.option(Cursor::key)?, (data.flag()?, data.flag()?));
            let uri = data.text(MAX_URI_BYTES)?.to_owned();
            Some((of, Self { collection, creator, owner, atom_enabled, wallet, feedback_count, revoke_count, uri }))
        };
        let (of, agent) = read(&mut data).ok_or_else(|| malformed(what, "does not have the layout that is known"))?;
        if of != asset { Err(malformed(what, "is that of another agent")) } else { Ok(agent) }
    }
}

fn checked<'a>(
    account: &'a Account,
    program: Pubkey,
    what: &str,
    discriminator: [u8; 8],
    sizes: std::ops::RangeInclusive<usize>,
) -> Result<&'a [u8], ChainError> {
    if account.owner != program {
        return Err(malformed(what, "belongs to another program: check the configured programs"));
    }
    if !account.data.starts_with(&discriminator) {
        return Err(malformed(what, "is of another kind"));
    }
    if !sizes.contains(&account.data.len()) {
        return Err(malformed(what, "has another size than the layout that is known"));
    }
    Ok(&account.data)
}

fn malformed(what: &str, why: &str) -> ChainError {
    ChainError::Malformed(format!("{what}: {why}"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PROGRAM: Pubkey = Pubkey([3; 32]);
    const ASSET: Pubkey = Pubkey([7; 32]);

    fn stats() -> Vec<u8> {
        let mut data = vec![0; STATS_BYTES];
        data[..8].copy_from_slice(&STATS_DISCRIMINATOR);
        data[40..72].copy_from_slice(&ASSET.0);
        data[88] = 5;
        data[547..549].copy_from_slice(&7_250_u16.to_le_bytes());
        data[549..551].copy_from_slice(&[12, 200]);
        data[555] = 3;
        data[557..559].copy_from_slice(&6_500_u16.to_le_bytes());
        data[560] = 1;
        data
    }

    fn parse(data: Vec<u8>) -> Result<AtomStats, ChainError> {
        AtomStats::parse(&Account { owner: PROGRAM, data }, PROGRAM, ASSET)
    }

    #[test]
    fn statistics_are_read_by_their_offsets() {
        let wanted = AtomStats {
            feedback_count: 5,
            quality: 7_250,
            risk: 12,
            diversity: 200,
            tier: 3,
            confidence: 6_500,
            schema: 1,
        };
        assert_eq!(parse(stats()), Ok(wanted));
        for (offset, byte) in [(548, 0xff), (558, 0xff), (549, 101), (555, 5), (40, 8), (0, 0)] {
            let mut data = stats();
            data[offset] = byte;
            assert_eq!(parse(data).unwrap_err().reason(), "malformed", "{offset}");
        }
        let mut longer = stats();
        longer.push(0);
        assert!(parse(longer).unwrap_err().to_string().contains("size"));
        let other = Account { owner: ASSET, data: stats() };
        assert!(AtomStats::parse(&other, PROGRAM, ASSET).unwrap_err().to_string().contains("another program"));
    }

    proptest! {
        #[test]
        fn no_bytes_break_the_reading(tail in proptest::collection::vec(any::<u8>(), 0..700)) {
            let mut data = AGENT_DISCRIMINATOR.to_vec();
            data.extend(tail);
            let account = Account { owner: PROGRAM, data };
            if let Err(error) = AgentAccount::parse(&account, PROGRAM, ASSET) {
                prop_assert_eq!(error.reason(), "malformed");
            }
        }
    }
}
