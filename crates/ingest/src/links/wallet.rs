//! Signatures of wallets over the line of a proof: EIP-191 `personal_sign` (secp256k1 with recovery, Keccak-256) and Solana's
//! `signMessage` (Ed25519). Accounts that are contracts (ERC-1271) cannot sign so.

use credence_protocol::{PublicKey, Signature};
use data_encoding::HEXLOWER_PERMISSIVE;
use k256::ecdsa::{RecoveryId, Signature as EcdsaSignature, VerifyingKey};
use sha3::{Digest, Keccak256};

/// Whether `signature` over `line` is by the wallet at `address`.
pub(super) fn check(namespace: &str, address: &str, line: &str, signature: &str) -> Result<(), &'static str> {
    match namespace {
        "eip155" => {
            let signer = recover(line, signature)?;
            if signer == address { Ok(()) } else { Err("the signature is by another wallet, or over another text") }
        }
        "solana" => {
            let key = decode58(address)?;
            let key = PublicKey::from_bytes(&key).map_err(|_| "the address is no key that can sign")?;
            let bytes: [u8; 64] = decode58(signature)?.try_into().map_err(|_| "a signature is 64 bytes in base58")?;
            key.verify(line.as_bytes(), &Signature::from_bytes(bytes))
                .map_err(|_| "the signature is by another wallet, or over another text")
        }
        _ => Err("wallets are EVM (eip155) or Solana"),
    }
}

/// The address that made an EIP-191 signature (version 0x45) over `text`, in lower case.
fn recover(text: &str, signature: &str) -> Result<String, &'static str> {
    const FORM: &str = "a signature is 0x and 130 hex digits: r, s and v";
    let hex = signature.strip_prefix("0x").ok_or(FORM)?;
    let bytes = HEXLOWER_PERMISSIVE.decode(hex.as_bytes()).map_err(|_| FORM)?;
    let [scalars @ .., v] = bytes.as_slice() else { return Err(FORM) };
    let v = match v {
        27 | 28 => v - 27,
        0 | 1 => *v,
        _ => return Err("the last byte of a signature (v) is 27 or 28"),
    };
    let given = EcdsaSignature::from_slice(scalars).map_err(|_| FORM)?;
    let id = RecoveryId::from_byte(v).ok_or(FORM)?;
    let message = format!("\u{19}Ethereum Signed Message:\n{}{text}", text.len());
    let digest = Keccak256::digest(message.as_bytes());
    let key = VerifyingKey::recover_from_prehash(&digest, &given, id)
        .map_err(|_| "the signature is no point on the curve")?;
    let point = key.to_sec1_point(false);
    let hash = Keccak256::digest(&point.as_bytes()[1..]);
    Ok(format!("0x{}", data_encoding::HEXLOWER.encode(&hash[12..])))
}

fn decode58(text: &str) -> Result<Vec<u8>, &'static str> {
    bs58::decode(text).into_vec().map_err(|_| "not base58")
}

#[cfg(test)]
mod tests {
    use credence_protocol::SecretKey;

    use super::*;

    /// Made with eth-account for the key 0x4c0883a6…362318 of the web3 documentation.
    const MESSAGE: &str = "Some data";
    const ADDRESS: &str = "0x2c7536e3605d9c16a7a3d7b1898e529396a65c23";
    const SIGNED: &str = "0xb91467e570a6466aa9e9876cbcd013baba02900b8979d43fe208a4a4f339f5fd6007e74cd82e037b800186422fc2da167c747ef045e5d18a5f5d4300f8e1a0291c";

    #[test]
    fn the_published_vector_of_eip_191_recovers() {
        assert_eq!(recover(MESSAGE, SIGNED).unwrap(), ADDRESS);
        assert!(check("eip155", ADDRESS, MESSAGE, SIGNED).is_ok());
        assert!(check("eip155", ADDRESS, "Some date", SIGNED).is_err());
        let other = "0x1111111111111111111111111111111111111111";
        assert!(check("eip155", other, MESSAGE, SIGNED).is_err());
    }

    #[test]
    fn what_is_no_signature_is_refused() {
        let short = &SIGNED[..SIGNED.len() - 2];
        let zero = format!("0x{}1b", "00".repeat(64));
        let v = format!("{short}ff");
        for bad in ["", "0x", "0xzz", short, &zero, &v, &SIGNED[2..]] {
            assert!(recover(MESSAGE, bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn solana_wallets_sign_with_their_address() {
        let key = SecretKey::from_seed(&[9; 32]);
        let address = bs58::encode(key.public().as_bytes()).into_string();
        let signature = bs58::encode(key.sign(b"line").as_bytes()).into_string();
        assert!(check("solana", &address, "line", &signature).is_ok());
        assert!(check("solana", &address, "lime", &signature).is_err());
        let other = bs58::encode(SecretKey::from_seed(&[8; 32]).public().as_bytes()).into_string();
        assert!(check("solana", &other, "line", &signature).is_err());
        assert!(check("solana", &address, "line", "abc").is_err());
        assert!(check("bip122", &address, "line", &signature).is_err());
    }
}
