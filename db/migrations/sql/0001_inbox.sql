-- Accounts, conversations, members, messages, owed calls, turns, outbox and usage.

CREATE EXTENSION IF NOT EXISTS pg_trgm;
CREATE EXTENSION IF NOT EXISTS vector;

CREATE TABLE accounts (
    account_id   bigint PRIMARY KEY,
    nickname     text NOT NULL DEFAULT '',
    connected    boolean NOT NULL DEFAULT false,
    online       boolean NOT NULL DEFAULT true,
    note         text NOT NULL DEFAULT '',
    worker       text NOT NULL DEFAULT '',       -- the process that holds its socket
    seen_at      timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE conversations (
    id             bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    kind           text NOT NULL CHECK (kind IN ('group', 'private')),
    target_id      bigint NOT NULL,
    name           text NOT NULL DEFAULT '',
    enabled        boolean,                       -- null: as ENABLED_GROUPS says
    talk_frequency double precision,              -- null: the setting
    quiet_hours    text,                          -- null: the setting
    daily_calls    integer,                       -- null: the setting
    persona        text,                          -- null: the setting
    extra_prompt   text NOT NULL DEFAULT '',
    learning       boolean NOT NULL DEFAULT true,
    quiet_until    timestamptz,                   -- /群友 安静
    muted_until    timestamptz,                   -- until the last own account is no longer muted
    whole_mute     boolean NOT NULL DEFAULT false,
    left_at        timestamptz,                   -- kicked, left or disbanded: no own account is there
    last_pos       bigint NOT NULL DEFAULT 0,     -- the highest position given out
    last_no        integer NOT NULL DEFAULT 0,    -- the highest member number given out
    watermark      bigint NOT NULL DEFAULT 0,     -- the last position a finished turn showed to the model
    diced_pos      bigint NOT NULL DEFAULT 0,     -- unread messages up to here were already rolled for
    created_at     timestamptz NOT NULL DEFAULT now(),
    updated_at     timestamptz NOT NULL DEFAULT now(),
    UNIQUE (kind, target_id)
);

-- Which own accounts are in a group, and which of them are muted there.
CREATE TABLE own_memberships (
    conversation_id bigint NOT NULL REFERENCES conversations ON DELETE CASCADE,
    account_id      bigint NOT NULL,
    muted_until     timestamptz,
    told_at         timestamptz NOT NULL DEFAULT now(),  -- when the mute was last told of
    left_at         timestamptz,
    PRIMARY KEY (conversation_id, account_id)
);

CREATE TABLE members (
    conversation_id bigint NOT NULL REFERENCES conversations ON DELETE CASCADE,
    user_id         bigint NOT NULL,
    no              integer NOT NULL,             -- short, stable id in prompts
    nickname        text NOT NULL DEFAULT '',
    card            text NOT NULL DEFAULT '',
    role            text NOT NULL DEFAULT 'unknown' CHECK (role IN ('owner', 'admin', 'member', 'unknown')),
    title           text NOT NULL DEFAULT '',
    is_robot        boolean NOT NULL DEFAULT false,
    joined_at       timestamptz,
    left_at         timestamptz,
    spoke_at        timestamptz,
    updated_at      timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (conversation_id, user_id),
    UNIQUE (conversation_id, no)
);

CREATE INDEX members_robots ON members (conversation_id) WHERE is_robot;

CREATE TABLE member_names (
    conversation_id bigint NOT NULL REFERENCES conversations ON DELETE CASCADE,
    user_id         bigint NOT NULL,
    name            text NOT NULL,
    first_seen      timestamptz NOT NULL,
    last_seen       timestamptz NOT NULL,
    PRIMARY KEY (conversation_id, user_id, name)
);

CREATE TABLE ignored (
    conversation_id bigint NOT NULL REFERENCES conversations ON DELETE CASCADE,
    user_id         bigint NOT NULL,
    reason          text NOT NULL DEFAULT '',
    created_at      timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (conversation_id, user_id)
);

CREATE TABLE messages (
    id              bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    conversation_id bigint NOT NULL REFERENCES conversations ON DELETE CASCADE,
    pos             bigint NOT NULL,              -- arrival order in the conversation: given out in commit order, never changed
    real_seq        bigint,                       -- NapCat's order in the conversation, where it gives one
    kind            text NOT NULL DEFAULT 'message' CHECK (kind IN ('message', 'poke')),
    sender_id       bigint NOT NULL,
    sender_name     text NOT NULL,                -- as it was when the message was sent
    is_self         boolean NOT NULL DEFAULT false,
    is_robot        boolean NOT NULL DEFAULT false,
    is_command      boolean NOT NULL DEFAULT false,
    text            text NOT NULL DEFAULT '',     -- what was said
    body            text NOT NULL DEFAULT '',     -- what a reader sees, without the quote
    quoted_id       bigint REFERENCES messages ON DELETE SET NULL,
    quoted_key      bigint,                       -- the account's message id that the reply names
    quote_sender    bigint,                       -- who wrote what it quotes, where it had to be fetched
    quote_name      text,                         -- whom it quotes; null: not a reply
    quote_text      text,                         -- what it quotes; null: not to be seen
    segments        jsonb NOT NULL DEFAULT '[]',
    sent_at         timestamptz NOT NULL,
    stored_at       timestamptz NOT NULL DEFAULT now(),
    withdrawn_at    timestamptz,
    withdrawn_by    bigint,
    turn_id         bigint,                       -- the turn that said it
    backfilled      boolean NOT NULL DEFAULT false,
    UNIQUE (conversation_id, pos)
);
CREATE UNIQUE INDEX messages_real_seq ON messages (conversation_id, real_seq) WHERE real_seq IS NOT NULL;
CREATE INDEX messages_sender ON messages (sender_id, id DESC);
CREATE INDEX messages_quoted ON messages (quoted_id) WHERE quoted_id IS NOT NULL;
CREATE INDEX messages_sent_at ON messages (sent_at);

-- One message is known under one id per own account that saw it.
CREATE TABLE message_keys (
    account_id bigint NOT NULL,
    message_id bigint NOT NULL,
    message    bigint NOT NULL REFERENCES messages ON DELETE CASCADE,
    PRIMARY KEY (account_id, message_id)
);
CREATE INDEX message_keys_message ON message_keys (message);

-- Withdraw notices that came before their message.
CREATE TABLE early_withdrawals (
    account_id   bigint NOT NULL,
    message_id   bigint NOT NULL,
    operator_id  bigint,
    withdrawn_at timestamptz NOT NULL,
    PRIMARY KEY (account_id, message_id)
);

CREATE TABLE reactions (
    message    bigint NOT NULL REFERENCES messages ON DELETE CASCADE,
    user_id    bigint NOT NULL,
    emoji      text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (message, user_id, emoji)
);

-- Joins, leaves, mutes, renames and the like, for the page and the learner.
CREATE TABLE happenings (
    id              bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    conversation_id bigint NOT NULL REFERENCES conversations ON DELETE CASCADE,
    kind            text NOT NULL,
    user_id         bigint,
    operator_id     bigint,
    detail          text NOT NULL DEFAULT '',
    happened_at     timestamptz NOT NULL
);
CREATE INDEX happenings_conversation ON happenings (conversation_id, id DESC);
CREATE INDEX happenings_kind ON happenings (conversation_id, kind, happened_at);

CREATE TABLE turns (
    id              bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    conversation_id bigint NOT NULL REFERENCES conversations ON DELETE CASCADE,
    account_id      bigint NOT NULL,
    status          text NOT NULL DEFAULT 'queued'
                    CHECK (status IN ('queued', 'running', 'done', 'failed', 'cancelled', 'interrupted')),
    trigger         text NOT NULL CHECK (trigger IN ('mention', 'reply', 'name', 'poke', 'ambient', 'console')),
    outcome         text,                         -- spoke, quiet, no_tool_call, step_limit, ...
    error           text,
    persona         text NOT NULL DEFAULT '',
    from_pos        bigint NOT NULL DEFAULT 0,    -- the watermark when it started
    shown_pos       bigint,                       -- the last position its model was shown
    worker          text,                         -- the process that runs it
    lease_until     timestamptz,
    queued_at       timestamptz NOT NULL DEFAULT now(),
    started_at      timestamptz,
    ended_at        timestamptz
);
CREATE UNIQUE INDEX turns_one_running ON turns (conversation_id) WHERE status = 'running';
CREATE INDEX turns_conversation ON turns (conversation_id, id DESC);
CREATE INDEX turns_live ON turns (status) WHERE status IN ('queued', 'running');

CREATE TABLE owed (
    message         bigint PRIMARY KEY REFERENCES messages ON DELETE CASCADE,
    conversation_id bigint NOT NULL REFERENCES conversations ON DELETE CASCADE,
    account_id      bigint NOT NULL,              -- the own account that was called
    pos             bigint NOT NULL,
    kind            text NOT NULL CHECK (kind IN ('mention', 'reply', 'name')),
    owed_at         timestamptz NOT NULL DEFAULT now(),
    tries           integer NOT NULL DEFAULT 0,   -- turns that failed on it
    retry_at        timestamptz NOT NULL DEFAULT now(),
    settled_at      timestamptz,
    settled_by      bigint REFERENCES turns ON DELETE SET NULL,
    settled_why     text                          -- shown, answered, stopped, disabled, removed, withdrawn, forgotten, expired
);
CREATE INDEX owed_settled_by ON owed (settled_by) WHERE settled_by IS NOT NULL;
CREATE INDEX owed_open ON owed (conversation_id, pos) WHERE settled_at IS NULL;

CREATE TABLE turn_blocks (
    turn_id   bigint NOT NULL REFERENCES turns ON DELETE CASCADE,
    call_no   integer NOT NULL,                   -- which model call of the turn
    no        integer NOT NULL,
    name      text NOT NULL,
    stability text NOT NULL CHECK (stability IN ('static', 'chunk', 'volatile')),
    tokens    integer NOT NULL,
    chars     integer NOT NULL,
    state     text NOT NULL CHECK (state IN ('kept', 'trimmed', 'dropped')),
    PRIMARY KEY (turn_id, call_no, no)
);

CREATE TABLE turn_steps (
    turn_id    bigint NOT NULL REFERENCES turns ON DELETE CASCADE,
    no         integer NOT NULL,
    kind       text NOT NULL CHECK (kind IN ('model', 'tool')),
    name       text NOT NULL,
    arguments  jsonb,
    result     text,
    ok         boolean NOT NULL,
    started_at timestamptz NOT NULL,
    ms         integer NOT NULL,
    PRIMARY KEY (turn_id, no)
);

CREATE TABLE outbox (
    id              bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    conversation_id bigint NOT NULL REFERENCES conversations ON DELETE CASCADE,
    account_id      bigint NOT NULL,
    turn_id         bigint REFERENCES turns ON DELETE SET NULL,
    status          text NOT NULL DEFAULT 'waiting'
                    CHECK (status IN ('waiting', 'sending', 'sent', 'refused', 'unknown', 'cancelled')),
    segments        jsonb NOT NULL,
    text            text NOT NULL,
    message_id      bigint,
    message         bigint REFERENCES messages ON DELETE SET NULL,
    reason          text,                         -- removed, muted, offline, rich_media, unknown_user, unconfirmed, other
    detail          text,
    created_at      timestamptz NOT NULL DEFAULT now(),
    left_at         timestamptz,                  -- handed to the socket
    settled_at      timestamptz
);
CREATE INDEX outbox_conversation ON outbox (conversation_id, id DESC);
CREATE INDEX outbox_turn ON outbox (turn_id) WHERE turn_id IS NOT NULL;
CREATE INDEX outbox_message ON outbox (message) WHERE message IS NOT NULL;
CREATE INDEX outbox_open ON outbox (conversation_id) WHERE status IN ('waiting', 'sending', 'unknown');

CREATE TABLE model_calls (
    id                bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    called_at         timestamptz NOT NULL DEFAULT now(),
    conversation_id   bigint REFERENCES conversations ON DELETE SET NULL,
    turn_id           bigint REFERENCES turns ON DELETE SET NULL,
    task              text NOT NULL,              -- turn, or the name of a structured task
    role              text NOT NULL,
    model             text NOT NULL,
    prompt_tokens     integer NOT NULL DEFAULT 0,
    completion_tokens integer NOT NULL DEFAULT 0,
    cached_tokens     integer NOT NULL DEFAULT 0,
    latency_ms        integer NOT NULL DEFAULT 0,
    ok                boolean NOT NULL,
    error             text
);
CREATE INDEX model_calls_day ON model_calls (conversation_id, called_at);
CREATE INDEX model_calls_turn ON model_calls (turn_id) WHERE turn_id IS NOT NULL;
CREATE INDEX model_calls_called_at ON model_calls (called_at);

CREATE TABLE audit (
    id              bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at              timestamptz NOT NULL DEFAULT now(),
    actor           text NOT NULL,                -- a QQ number, or "api"
    action          text NOT NULL,
    conversation_id bigint REFERENCES conversations ON DELETE SET NULL,
    before          jsonb,
    after           jsonb
);
