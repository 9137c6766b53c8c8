// SPDX-License-Identifier: Apache-2.0
// The interface of ERC-8004 as far as the tests use it: same signatures, events and rules, less machinery. Written for the tests.
pragma solidity ^0.8.24;

contract IdentityRegistry {
    event Transfer(address indexed from, address indexed to, uint256 indexed tokenId);
    event Registered(uint256 indexed agentId, string agentURI, address indexed owner);
    event URIUpdated(uint256 indexed agentId, string newURI, address indexed updatedBy);

    error ERC721NonexistentToken(uint256 tokenId);

    uint256 private next;
    mapping(uint256 => address) private owners;
    mapping(uint256 => string) private uris;
    mapping(uint256 => address) private wallets;

    function register(string calldata agentURI) external returns (uint256 agentId) {
        return create(agentURI);
    }

    // For the tests alone: many at once.
    function registerMany(string[] calldata agentURIs) external {
        for (uint256 i = 0; i < agentURIs.length; i++) create(agentURIs[i]);
    }

    function create(string calldata agentURI) private returns (uint256 agentId) {
        agentId = next++;
        owners[agentId] = msg.sender;
        uris[agentId] = agentURI;
        wallets[agentId] = msg.sender;
        emit Transfer(address(0), msg.sender, agentId);
        emit Registered(agentId, agentURI, msg.sender);
    }

    function ownerOf(uint256 agentId) public view returns (address owner) {
        owner = owners[agentId];
        if (owner == address(0)) revert ERC721NonexistentToken(agentId);
    }

    function tokenURI(uint256 agentId) external view returns (string memory) {
        ownerOf(agentId);
        return uris[agentId];
    }

    function getAgentWallet(uint256 agentId) external view returns (address) {
        ownerOf(agentId);
        return wallets[agentId];
    }

    function setAgentURI(uint256 agentId, string calldata newURI) external {
        require(ownerOf(agentId) == msg.sender, "Not authorized");
        uris[agentId] = newURI;
        emit URIUpdated(agentId, newURI, msg.sender);
    }

    function transferFrom(address from, address to, uint256 agentId) external {
        require(ownerOf(agentId) == msg.sender && from == msg.sender, "Not authorized");
        owners[agentId] = to;
        wallets[agentId] = address(0);
        emit Transfer(from, to, agentId);
    }
}

contract ReputationRegistry {
    event NewFeedback(
        uint256 indexed agentId,
        address indexed clientAddress,
        uint64 feedbackIndex,
        int128 value,
        uint8 valueDecimals,
        string indexed indexedTag1,
        string tag1,
        string tag2,
        string endpoint,
        string feedbackURI,
        bytes32 feedbackHash
    );
    event FeedbackRevoked(uint256 indexed agentId, address indexed clientAddress, uint64 indexed feedbackIndex);

    struct Feedback {
        int128 value;
        uint8 valueDecimals;
        bool isRevoked;
        string tag1;
        string tag2;
    }

    IdentityRegistry private identity;
    mapping(uint256 => address[]) private clients;
    mapping(uint256 => mapping(address => Feedback[])) private feedback;
    // For the tests alone: refuses everything.
    bool public paused;

    constructor(address identityRegistry) {
        identity = IdentityRegistry(identityRegistry);
    }

    function getIdentityRegistry() external view returns (address) {
        return address(identity);
    }

    function pause(bool on) external {
        paused = on;
    }

    function giveFeedback(
        uint256 agentId,
        int128 value,
        uint8 valueDecimals,
        string calldata tag1,
        string calldata tag2,
        string calldata endpoint,
        string calldata feedbackURI,
        bytes32 feedbackHash
    ) external {
        require(identity.ownerOf(agentId) != msg.sender, "Self-feedback not allowed");
        store(agentId, msg.sender, Feedback(value, valueDecimals, false, tag1, tag2));
        emitNew(agentId, msg.sender, value, valueDecimals, [tag1, tag2, endpoint, feedbackURI], feedbackHash);
    }

    function emitNew(
        uint256 agentId,
        address client,
        int128 value,
        uint8 valueDecimals,
        string[4] memory texts,
        bytes32 feedbackHash
    ) private {
        uint64 index = uint64(feedback[agentId][client].length);
        emit NewFeedback(
            agentId, client, index, value, valueDecimals, texts[0], texts[0], texts[1], texts[2], texts[3], feedbackHash
        );
    }

    function store(uint256 agentId, address client, Feedback memory one) private {
        require(!paused, "registry is paused");
        require(one.valueDecimals <= 18, "too many decimals");
        require(one.value >= -1e38 && one.value <= 1e38, "value too large");
        if (feedback[agentId][client].length == 0) clients[agentId].push(client);
        feedback[agentId][client].push(one);
    }

    // For the tests alone: feedback by many made-up clients at once.
    function seed(uint256 agentId, address first, uint160 count, int128 value, uint8 valueDecimals, string calldata tag1) external {
        for (uint160 i = 0; i < count; i++) {
            address client = address(uint160(first) + i);
            store(agentId, client, Feedback(value + int128(uint128(i % 10)), valueDecimals, false, tag1, ""));
        }
    }

    function revokeFeedback(uint256 agentId, uint64 feedbackIndex) external {
        require(feedbackIndex > 0 && feedbackIndex <= feedback[agentId][msg.sender].length, "index out of bounds");
        Feedback storage one = feedback[agentId][msg.sender][feedbackIndex - 1];
        require(!one.isRevoked, "Already revoked");
        one.isRevoked = true;
        emit FeedbackRevoked(agentId, msg.sender, feedbackIndex);
    }

    function getClients(uint256 agentId) external view returns (address[] memory) {
        return clients[agentId];
    }

    function getLastIndex(uint256 agentId, address client) external view returns (uint64) {
        return uint64(feedback[agentId][client].length);
    }

    function readFeedback(uint256 agentId, address client, uint64 feedbackIndex)
        external
        view
        returns (int128 value, uint8 valueDecimals, string memory tag1, string memory tag2, bool isRevoked)
    {
        require(feedbackIndex > 0 && feedbackIndex <= feedback[agentId][client].length, "index out of bounds");
        Feedback storage one = feedback[agentId][client][feedbackIndex - 1];
        return (one.value, one.valueDecimals, one.tag1, one.tag2, one.isRevoked);
    }

    struct All {
        address[] clients;
        uint64[] indexes;
        int128[] values;
        uint8[] decimals;
        string[] tag1s;
        string[] tag2s;
        bool[] revoked;
    }

    function readAllFeedback(
        uint256 agentId,
        address[] calldata clientAddresses,
        string calldata tag1,
        string calldata tag2,
        bool includeRevoked
    )
        external
        view
        returns (
            address[] memory,
            uint64[] memory,
            int128[] memory,
            uint8[] memory,
            string[] memory,
            string[] memory,
            bool[] memory
        )
    {
        address[] memory list = clientAddresses;
        if (list.length == 0) list = clients[agentId];
        All memory all = collect(agentId, list, tag1, tag2, includeRevoked);
        return (all.clients, all.indexes, all.values, all.decimals, all.tag1s, all.tag2s, all.revoked);
    }

    function matches(Feedback storage one, bytes32 tag1, bytes32 tag2, bool includeRevoked) private view returns (bool) {
        bytes32 none = keccak256("");
        return (includeRevoked || !one.isRevoked) && (tag1 == none || keccak256(bytes(one.tag1)) == tag1)
            && (tag2 == none || keccak256(bytes(one.tag2)) == tag2);
    }

    function collect(uint256 agentId, address[] memory list, string calldata tag1, string calldata tag2, bool includeRevoked)
        private
        view
        returns (All memory all)
    {
        bytes32 first = keccak256(bytes(tag1));
        bytes32 second = keccak256(bytes(tag2));
        uint256 count;
        for (uint256 i = 0; i < list.length; i++) {
            Feedback[] storage given = feedback[agentId][list[i]];
            for (uint256 j = 0; j < given.length; j++) if (matches(given[j], first, second, includeRevoked)) count++;
        }
        all = All(
            new address[](count),
            new uint64[](count),
            new int128[](count),
            new uint8[](count),
            new string[](count),
            new string[](count),
            new bool[](count)
        );
        uint256 next;
        for (uint256 i = 0; i < list.length; i++) {
            Feedback[] storage given = feedback[agentId][list[i]];
            for (uint256 j = 0; j < given.length; j++) {
                if (!matches(given[j], first, second, includeRevoked)) continue;
                all.clients[next] = list[i];
                all.indexes[next] = uint64(j + 1);
                all.values[next] = given[j].value;
                all.decimals[next] = given[j].valueDecimals;
                all.tag1s[next] = given[j].tag1;
                all.tag2s[next] = given[j].tag2;
                all.revoked[next] = given[j].isRevoked;
                next++;
            }
        }
    }
}

contract ValidationRegistry {
    event ValidationRequest(address indexed validatorAddress, uint256 indexed agentId, string requestURI, bytes32 indexed requestHash);
    event ValidationResponse(
        address indexed validatorAddress,
        uint256 indexed agentId,
        bytes32 indexed requestHash,
        uint8 response,
        string responseURI,
        bytes32 responseHash,
        string tag
    );

    struct Status {
        address validator;
        uint256 agentId;
        uint8 response;
        bytes32 responseHash;
        string tag;
        uint256 lastUpdate;
    }

    mapping(bytes32 => Status) private statuses;
    mapping(address => bytes32[]) private byValidator;

    function validationRequest(address validator, uint256 agentId, string calldata requestURI, bytes32 requestHash) external {
        require(statuses[requestHash].validator == address(0), "exists");
        statuses[requestHash] = Status(validator, agentId, 0, bytes32(0), "", block.timestamp);
        byValidator[validator].push(requestHash);
        emit ValidationRequest(validator, agentId, requestURI, requestHash);
    }

    function validationResponse(
        bytes32 requestHash,
        uint8 response,
        string calldata responseURI,
        bytes32 responseHash,
        string calldata tag
    ) external {
        Status storage one = statuses[requestHash];
        require(one.validator == msg.sender, "not validator");
        require(response <= 100, "resp>100");
        one.response = response;
        one.responseHash = responseHash;
        one.tag = tag;
        one.lastUpdate = block.timestamp;
        emit ValidationResponse(msg.sender, one.agentId, requestHash, response, responseURI, responseHash, tag);
    }

    function getValidationStatus(bytes32 requestHash)
        external
        view
        returns (address, uint256, uint8, bytes32, string memory, uint256)
    {
        Status storage one = statuses[requestHash];
        return (one.validator, one.agentId, one.response, one.responseHash, one.tag, one.lastUpdate);
    }

    function getValidatorRequests(address validator) external view returns (bytes32[] memory) {
        return byValidator[validator];
    }
}

// What rollups charge for the data of a transaction, at its fixed address in tests.
contract L1FeeOracle {
    function getL1Fee(bytes calldata data) external pure returns (uint256) {
        return data.length * 1e9;
    }
}

// A token that payments are made in.
contract Token {
    event Transfer(address indexed from, address indexed to, uint256 value);

    function pay(address from, address to, uint256 value) external {
        emit Transfer(from, to, value);
    }
}
