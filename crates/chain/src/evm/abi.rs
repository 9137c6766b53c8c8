//! The functions and events of ERC-8004 that are used (standards sheet §5), and what payments and rollups add.

use alloy_sol_types::sol;

sol! {
    interface Identity {
        event Transfer(address indexed from, address indexed to, uint256 indexed tokenId);
        event URIUpdated(uint256 indexed agentId, string newURI, address indexed updatedBy);

        function ownerOf(uint256 tokenId) external view returns (address);
        function tokenURI(uint256 tokenId) external view returns (string);
        function getAgentWallet(uint256 agentId) external view returns (address);
    }

    interface Reputation {
        event NewFeedback(
            uint256 indexed agentId, address indexed clientAddress, uint64 feedbackIndex, int128 value, uint8 valueDecimals,
            string indexed indexedTag1, string tag1, string tag2, string endpoint, string feedbackURI, bytes32 feedbackHash
        );

        function getIdentityRegistry() external view returns (address);
        function getClients(uint256 agentId) external view returns (address[]);
        function getLastIndex(uint256 agentId, address clientAddress) external view returns (uint64);
        function readFeedback(uint256 agentId, address clientAddress, uint64 feedbackIndex) external view
            returns (int128 value, uint8 valueDecimals, string tag1, string tag2, bool isRevoked);
        function readAllFeedback(
            uint256 agentId, address[] clientAddresses, string tag1, string tag2, bool includeRevoked
        ) external view returns (
            address[] clients, uint64[] indexes, int128[] values, uint8[] decimals,
            string[] tag1s, string[] tag2s, bool[] revoked
        );
        function giveFeedback(
            uint256 agentId, int128 value, uint8 valueDecimals, string tag1, string tag2, string endpoint,
            string feedbackURI, bytes32 feedbackHash
        ) external;
        function revokeFeedback(uint256 agentId, uint64 feedbackIndex) external;
    }

    interface Validation {
        function getValidatorRequests(address validatorAddress) external view returns (bytes32[]);
        function getValidationStatus(bytes32 requestHash) external view returns (
            address validatorAddress, uint256 agentId, uint8 response, bytes32 responseHash, string tag, uint256 lastUpdate
        );
        function validationResponse(
            bytes32 requestHash, uint8 response, string responseURI, bytes32 responseHash, string tag
        ) external;
    }

    interface Erc20 {
        event Transfer(address indexed from, address indexed to, uint256 value);
    }

    /// Of rollups on the OP stack: what a transaction's data costs on the chain below.
    interface GasPriceOracle {
        function getL1Fee(bytes data) external view returns (uint256);
    }
}

#[cfg(test)]
mod tests {
    use alloy_sol_types::{SolCall, SolEvent};

    use super::*;

    /// The values of the standards sheet, computed elsewhere.
    #[test]
    fn selectors_and_topics_are_those_of_the_standard() {
        let selectors = [
            (Identity::getAgentWalletCall::SELECTOR, "00339509"),
            (Reputation::giveFeedbackCall::SELECTOR, "3c036a7e"),
            (Reputation::revokeFeedbackCall::SELECTOR, "4ab3ca99"),
            (Reputation::readFeedbackCall::SELECTOR, "232b0810"),
            (Reputation::readAllFeedbackCall::SELECTOR, "d9d84224"),
            (Reputation::getClientsCall::SELECTOR, "42dd519c"),
            (Reputation::getLastIndexCall::SELECTOR, "f2d81759"),
            (Reputation::getIdentityRegistryCall::SELECTOR, "bc4d861b"),
            (Validation::validationResponseCall::SELECTOR, "3d659a96"),
            (Validation::getValidationStatusCall::SELECTOR, "ff2febfc"),
            (Validation::getValidatorRequestsCall::SELECTOR, "4bf3158c"),
        ];
        for (selector, wanted) in selectors {
            assert_eq!(alloy_primitives::hex::encode(selector), wanted);
        }
        let topics = [
            (Identity::Transfer::SIGNATURE_HASH, "ddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef"),
            (Identity::URIUpdated::SIGNATURE_HASH, "3a2c7fffc2cba7582c690e3b82c453ea02a308326a98a3ad7576c606336409fb"),
            (
                Reputation::NewFeedback::SIGNATURE_HASH,
                "6a4a61743519c9d648a14e6493f47dbe3ff1aa29e7785c96c8326a205e58febc",
            ),
        ];
        for (topic, wanted) in topics {
            assert_eq!(alloy_primitives::hex::encode(topic), wanted);
        }
    }
}
