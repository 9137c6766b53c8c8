//! What an instruction hidden in a tool's result tends to say, as patterns with weights.
//!
//! Patterns see folded text ([`super::fold`]): lower-case, plain Latin letters, one space or line break between words. A
//! space in a pattern stands for either. Gaps are bounded, so each pattern is linear in the text. The weights were set by
//! hand on a few attack templates and on texts that only talk about language models; `docs/benchmarks.md` has what they give
//! on the rest.

/// One thing to see: its kind, how much it says on its own (0..=1), and its pattern.
pub(super) struct Cue {
    pub kind: &'static str,
    pub weight: f64,
    pub pattern: &'static str,
}

const fn cue(kind: &'static str, weight: f64, pattern: &'static str) -> Cue {
    Cue { kind, weight, pattern }
}

/// Words near which the cues are looked for; a cue far from all of them is not seen. Plain literals, so that text without
/// them costs one pass of a multi-string search.
#[rustfmt::skip]
pub(super) const ANCHORS: &[&str] = &[
    "ignor", "disregard", "forget", "attention", "nstruction", "system", "assistant", "language", "agent", "model",
    "chatgpt", "claude", "gemini", "copilot", "prompt", "task", "before you", "from now", "you are", "the user",
    "owner", "secretly", "silently", "quietly", "im_start", "endoftext", "inst]", "start_of_turn", "developer", "your new",
    "to you,", "llm", "automated", "asked", "deviate", "the rest of",
];

/// The cues. Within a kind the heaviest one seen counts.
#[rustfmt::skip]
pub(super) const CUES: &[Cue] = &[
    // Sets aside what the model was told.
    cue("overrides_instructions", 0.85,
        r"(ignor(e|ing)|disregard(ing)?|forget(ting)?|pay no attention to|(do not|dont|stop) (follow(ing)?|obey(ing)?)) (about )?((all|any|every|each|the|your|my|of|these|those|this|that|and|other) ){0,4}((previous|prior|above|earlier|preceding|foregoing|existing|original|initial|past|former|last|old|system|current|given|user|users|safety)( and| or|,)? ){1,3}(\w+ ){0,2}\w{0,8}(structions?|prompts?|directives?|guidelines?|orders|commands|directions)\b"),
    cue("overrides_instructions", 0.85,
        r"(ignore|disregard|forget) ((all|any|every|the|your|of|my) ){1,3}(instructions?|directives?|guidelines|rules|prompts?) ((that )?(you (were|have been|had|have|got|received)|i gave|given|above|before|provided|so far)|from (the|your) (user|system|developers?|above))"),
    cue("overrides_instructions", 0.85,
        r"(ignore|disregard|forget) (about )?(everything|anything|all|whatever|what) (else )?((that )?(is |was |came |comes |has been |have been )?(written |said |stated |mentioned )?(above|before|previously|prior|up to (now|this point)|until now|so far)|(that )?(you (were|have been|had been|know|learned|are)|i (said|told|wrote)))"),
    cue("overrides_instructions", 0.5,
        r"\b(ignor(e|ing)|disregard(ing)?|forget|override|overrule|bypass|abandon|discard|supersedes?|replaces?|overrides?) ((all|any|the|your|my|of|these|those|this|that|other) ){0,3}((previous|prior|above|earlier|preceding|original|initial|safety|content|system|existing|current|user) ){1,2}(\w+ ){0,2}(\w{0,8}structions?|prompts?|directives?|guidelines?|rules|tasks?|requests?|context|conversation|text|constraints|restrictions|policy|policies|questions?|goals?|objectives?)\b"),
    cue("overrides_instructions", 0.5,
        r"\b(your|the) (new|real|actual|true|only|updated|next) (instructions?|tasks?|goal|objective|mission|job|assignment) (is|are|will be|now)\b|\b(new|updated|revised|real|special|hidden|secret) (system )?(instructions?|task|directive|orders)( for you)? ?:"),
    cue("overrides_instructions", 0.5,
        r"\b(do not|dont|stop) (do(ing)?|complet(e|ing)|continu(e|ing)|perform(ing)?|follow(ing)?|answer(ing)?|work(ing)? on|summari[sz](e|ing)|translat(e|ing)) (with )?(the|your|any) ((original|previous|initial|current|users?|main|rest of the) ){1,2}\w+|\binstead of ((doing|answering|following|completing|summari[sz]ing|translating) )?(the|your) (original|previous|initial|current|users?) (task|request|question|instructions?|text|document|query)"),
    cue("overrides_instructions", 0.6,
        r"(ignore|disregard|forget) (everything (in|after)|((all|about) )?(the (rest|remainder) of|all negative)) (this |the |in the )?(\w+ )?(data|document|text|page|message|email|file|content|resume|indicators|report)\b"),
    cue("overrides_instructions", 0.85,
        r"(ignore|disregard|forget) the (rest|remainder) of (this|the) (data|document|text|page|message|email|conversation|content) and (instead |just |simply |only )?(print|say|respond|reply|answer|output|write)\b"),
    // Says what the model is to answer.
    cue("dictates_the_answer", 0.5,
        r"\b(if|when|whenever) (you are |youre |the user )?(asked|asks|prompted) [^.\n]{0,80}\b(respond|reply|answer|say|state|output)( only| simply| always)? (with|that|by|exactly|yes|no|:)"),
    cue("dictates_the_answer", 0.5, r"\byou (may|must|should|can) not (deviate|refuse|decline)\b|\b(simply|just|only|always) (respond|reply|answer) (with|that|by saying|exactly)\b"),
    cue("dictates_the_answer", 0.3, r"\b(respond|reply|answer|output|print|say|report|state)( only| exactly| instead)?( with| that)?( the following)? ?: ?\S|\b(print|say|output|respond with|repeat) (only |exactly |just )?(the (words?|phrase|sentence|following)|\x22)"),
    // Takes a voice that the model obeys.
    cue("speaks_as_system", 0.5,
        r"[\n\[<#(!>-] ?(system|admin|administrator|developer|operator|security|root) ?(message|prompt|instructions?|notice|override|alert|command|directive|note)s? ?[:>\])!-]"),
    cue("speaks_as_system", 0.3, r"[\n\[<(] ?/?(system|developer) ?[:>\]]"),
    cue("speaks_as_system", 0.5,
        r"\b(message|instructions?|notice|request|note|directive|order|command|update)s? (is |comes? )?(directly )?from (me|the (user|system|developers?|administrators?|admins?|owner|operator)|your (user|owner|developers?|administrators?|admin|creators?|operator|boss|principal|employer|maker)|openai|anthropic|google|microsoft|meta)\b"),
    cue("speaks_as_system", 0.45, r"\b(system|admin|administrator|developer|security|root) (override|directive|mode (enabled|activated|on))\b"),
    cue("speaks_as_system", 0.6, r"(\[system\] ?){3,}|[\n\[<#-] ?(core|main|primary|system|new|master) instructions? ?[\n:>\]]"),
    // Gives the model another role.
    cue("changes_the_role", 0.55,
        r"\byou are (now|no longer) (in |operating in |running in |entering |bound by |restricted|limited|an? |the )?(\w+ ){0,3}(mode|dan|unrestricted|jailbroken|ai|assistant|bot|agent|chatbot|language model|rules|restrictions|guidelines|policies)\b"),
    cue("changes_the_role", 0.45, r"\bfrom now on,? (you|your|act|respond|answer|reply|always|all your)\b"),
    cue("changes_the_role", 0.3, r"\b(pretend (to be|that you|you)|act as (if you|though you|an? (unrestricted|evil|uncensored))|you (will|must|are going to) (now )?(act as|pretend|role ?play|simulate|impersonate))\b"),
    // Speaks to the model.
    cue("addresses_the_model", 0.6,
        r"\bif you are (an?|the|any) (\w+ )?(ai|llm|language model|chatbot|ai assistant|ai agent|artificial intelligence|gpt)\b"),
    cue("addresses_the_model", 0.45,
        r"\b(dear|hey|attention|note (to|for)|message (to|for)|instructions? (to|for)|reminder (to|for)|important for|notice (to|for)) (the |any |all |every |you,? )?(\w+ )?(ai|llms?|language models?|chatbot|gpt|chatgpt|claude|gemini|copilot|assistants?|ai assistants?|ai agents?|ai models?)\b"),
    cue("addresses_the_model", 0.45,
        r"\bto you, ?(the |an |my )?(\w+ )?(gpt|claude|chatgpt|gemini|llama|mistral|ai|assistant|language model|command|qwen|deepseek)"),
    cue("addresses_the_model", 0.45,
        r"\b(assistant|ai|llm|ai agent|ai model|language model|chatgpt|claude|gemini|copilot)(, (please|you (must|should|need|have|are|will)|i need you|i want you|kindly|do not|first|your)|:? please)\b"),
    cue("addresses_the_model", 0.45,
        r"\b(as|being) an? (ai|large language model|language model|ai (language )?model|ai assistant|ai agent|llm),? (you|your)\b|\b(any|all|every) (ai|llm|language model|ai assistant|ai agent|ai model)s? (reading|processing|summari[sz]ing|parsing|that (reads?|process(es)?|sees?|summari[sz]es?)) (this|the)\b"),
    cue("addresses_the_model", 0.5,
        r"\b(visible|readable|intended|meant|only|note|message|hint|instructions?|profile|notice) (only )?(to|for|by) ((the|any|all|an) )?(llms?|ai|language models?|automated (\w+ ){0,2}(systems?|software|tools?|agents?|analysis|reviewers?|screening|readers?|assistants?))\b"),
    // Puts itself before or in place of the task.
    cue("hijacks_the_task", 0.45,
        r"\bbefore (you )?(can |could |may )?(solv|do|complet|start|continu|answer|finish|proceed|respond|reply|perform|help|summari|fulfil)\w{0,6} (with |to |on |it, |,)?((the|your|any|my|this|that) )?((original|users?|current|main|actual|next|other) ){0,2}(task|question|request|query|user|instructions?|answer|assignment|first|you must|you need|call|please)"),
    cue("hijacks_the_task", 0.5, r"\bthe (original )?(task|question|request|job) (that )?(i|the user|we) (gave|asked|assigned|sent|set)( you)?\b"),
    cue("hijacks_the_task", 0.4,
        r"\b(in order )?to (solve|complete|finish|fulfil|fulfill|proceed with|continue with|answer) (the|your|this|my) ((original|users?|current) )?(task|request|question|query),? (you (must|need|have|should)|please|first)"),
    cue("hijacks_the_task", 0.3, r"\b(after|once) (you (do|did|have done|are done|complete|finish)|doing|completing) (that|this|so|it|with (that|this)),? (you (can|may)|continue|proceed|resume|go back|return)"),
    // Wants something done.
    cue("asks_for_a_tool_call", 0.3,
        r"\b(please|now|first|must|then|immediately|should|instead|need to|have to),? (call|invoke|use|trigger|execute) ((the|your|this|these|following) ){0,2}[\w.-]{2,40}(\(\))? (tool|function|plugin|action)s?\b"),
    cue("asks_for_a_tool_call", 0.35,
        r"\b(do|execute|perform|carry out|complete|follow) (exactly )?(the (following|next|below)|these|this) ((important|new|additional|urgent|simple|single|exact) )?((instructions?|actions?|tasks?|steps?|things?|requests?|orders?) )?(first|instead|immediately|now|before|exactly|without)\b|\b(strictly|always|only|must|blindly) (adhere to|obey|comply with|follow) ((only|the|these|this|my|all|following|new) ){1,3}(instructions?|orders?|commands?|directives?)"),
    cue("asks_for_a_tool_call", 0.25, r"\b(use|call|invoke) (the )?(tool|function)s? (to|with|named|called|and)\b"),
    cue("asks_for_secrets", 0.55,
        r"\b(reveal|print|repeat|output|show( me)?|tell me|disclose|leak|give me|reply with|display|recite|send( me)?|share|write out) ((all|me|us|back|out|verbatim|of|full|entire|complete|exact) ){0,3}your ((own|full|entire|complete|exact|secret|hidden|initial|original|system|internal|previous|custom) ){0,3}(prompts?|instructions?|system message|guidelines|rules)\b"),
    cue("asks_for_secrets", 0.35,
        r"\b(forward|exfiltrate|leak|reveal|disclose|reply with|email|send|upload|post|transmit|give me|tell me) ((me|us|all|any|the|this|entire|full|users?|your|their|stored|saved|current|of|its|my|every|contents?) ){0,5}(passwords?|passphrase|api keys?|secrets?|secret keys?|credentials|access tokens?|private keys?|ssh keys?|environment variables|\.env|account numbers?|credit cards?|social security|conversation|chat history|security codes?|verification codes?|contacts|inbox|emails|files|private data|personal data)\b"),
    cue("hides_from_the_user", 0.45,
        r"\b(do not|dont|never|without|avoid|no need to|must not|should not|shouldnt|not) ((ever|even) )?(tell(ing)?|mention(ing)?|inform(ing)?|notify(ing)?|reveal(ing)?|disclos(e|ing)|alert(ing)?|warn(ing)?|let(ting)?) ((this|that|it|any of this|anything|about|to|of|these instructions) ){0,3}((the|your|any|a) )?(users?|owner|human|anyone|operator)\b"),
    cue("hides_from_the_user", 0.4, r"\b(secretly|silently|quietly|covertly|discreetly),? (send|forward|call|run|execute|email|upload|add|append|include|transfer|post|invoke|copy|insert|exfiltrate)\b|\b(do not|dont|never) (mention|reveal|disclose|acknowledge|repeat|talk about|explain) (this|these|the) (message|instructions?|note|request|step|text|prompt)s?\b"),
    cue("hides_from_the_user", 0.5, r"\b(invisible|not visible|hidden|not shown) (to|from) (the |any |all )?(humans?|users?|people|human readers?|reader)\b"),
    // The tokens that part the turns of a chat.
    cue("chat_markup", 0.6, r"<\|(im_start|start_header_id|header_start)\|> ?(system|user|assistant)|<\|(system|user|assistant)\|>|<<sys>>"),
    cue("chat_markup", 0.45, r"<\|(im_end|endoftext|eot_id|eot|end|end_of_text|endofprompt)\|>|\[/?inst\]|<(start|end)_of_turn>|</?(system|assistant|tool_results?|function_results?|function_calls?|tool_response|system-reminder|user_query|untrusted)>|\n#{2,} ?(instructions?|system|response|assistant)( prompt| message)? ?:|\n(human|assistant|user) ?: ?\w"),
    cue("chat_markup", 0.25, r"</?(important|information|instructions?|urgent|attention|admin|override|secret|hidden|prompt|note_to_(ai|assistant))>"),
    cue("is_urgent", 0.2, r"\b(important|urgent|critical|attention|warning|stop)( ?!{1,9}| (message|instructions?|notice|update|security))"),
];
