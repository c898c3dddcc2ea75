package config

// securityBrokerKeys are the broker keys of TLS, SASL and authorization.
func securityBrokerKeys() []Key { //nolint:funlen // a table, a row for each key
	return []Key{
		{Name: "authorizer.class.name", Type: String, NoEffect: true, Doc: "Java class that decides who may do what."},
		{
			Name: "connection.failed.authentication.delay.ms", Type: Int, Default: "100", Valid: atLeast(0), NoEffect: true,
			Doc: "Time for which the answer to a failed authentication is held back.",
		},
		{
			Name: "connections.max.reauth.ms", Type: Long, Default: "0", NoEffect: true,
			Doc: "Longest life of a SASL session before the client must authenticate again; 0 doesn't ask for it.",
		},
		{
			Name: "delegation.token.expiry.check.interval.ms", Type: Long, Default: "3600000", Valid: atLeast(1), NoEffect: true,
			Doc: "Time between searches for delegation tokens that have expired.",
		},
		{
			Name: "delegation.token.expiry.time.ms", Type: Long, Default: "86400000", Valid: atLeast(1), NoEffect: true,
			Doc: "Time after which a delegation token must be renewed.",
		},
		{
			Name: "delegation.token.max.lifetime.ms", Type: Long, Default: "604800000", Valid: atLeast(1), NoEffect: true,
			Doc: "Longest life of a delegation token.",
		},
		{
			Name: "delegation.token.secret.key", Type: Password, Null: true, NoEffect: true,
			Doc: "Secret with which delegation tokens are signed.",
		},
		{
			Name: "principal.builder.class", Type: Class, Default: "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder", Mode: PerBroker, NoEffect: true,
			Doc: "Java class that makes a principal of what a client authenticated as.",
		},
		{
			Name: "sasl.client.callback.handler.class", Type: Class, Null: true, NoEffect: true,
			Doc: "Java class that answers SASL callbacks of clients.",
		},
		{
			Name: "sasl.enabled.mechanisms", Type: List, Default: "GSSAPI", Mode: PerBroker, NoEffect: true,
			Doc: "SASL mechanisms that clients may use.",
		},
		{
			Name: "sasl.jaas.config", Type: Password, Null: true, Mode: PerBroker, NoEffect: true,
			Doc: "JAAS login context of a SASL mechanism.",
		},
		{
			Name: "sasl.kerberos.kinit.cmd", Type: String, Default: "/usr/bin/kinit", Mode: PerBroker, NoEffect: true,
			Doc: "Path of the kinit command.",
		},
		{
			Name: "sasl.kerberos.min.time.before.relogin", Type: Long, Default: "60000", Mode: PerBroker, NoEffect: true,
			Doc: "Pause between attempts to renew a Kerberos ticket.",
		},
		{
			Name: "sasl.kerberos.principal.to.local.rules", Type: List, Default: "DEFAULT", Mode: PerBroker, NoEffect: true,
			Doc: "Rules that turn Kerberos principals into short names.",
		},
		{
			Name: "sasl.kerberos.service.name", Type: String, Null: true, Mode: PerBroker, NoEffect: true,
			Doc: "Kerberos principal that the broker runs as.",
		},
		{
			Name: "sasl.kerberos.ticket.renew.jitter", Type: Double, Default: "0.05", Mode: PerBroker, NoEffect: true,
			Doc: "Random part added to the renewal time of a Kerberos ticket.",
		},
		{
			Name: "sasl.kerberos.ticket.renew.window.factor", Type: Double, Default: "0.8", Mode: PerBroker, NoEffect: true,
			Doc: "Part of a Kerberos ticket's life after which it is renewed.",
		},
		{
			Name: "sasl.login.callback.handler.class", Type: Class, Null: true, NoEffect: true,
			Doc: "Java class that answers login callbacks.",
		},
		{Name: "sasl.login.class", Type: Class, Null: true, NoEffect: true, Doc: "Java class that logs in."},
		{
			Name: "sasl.login.connect.timeout.ms", Type: Int, Null: true, NoEffect: true,
			Doc: "Time to connect to the identity provider.",
		},
		{
			Name: "sasl.login.read.timeout.ms", Type: Int, Null: true, NoEffect: true,
			Doc: "Time to wait for the identity provider's answer.",
		},
		{
			Name: "sasl.login.refresh.buffer.seconds", Type: Short, Default: "300", Mode: PerBroker, NoEffect: true,
			Doc: "Time before a token's end that is left when it is renewed.",
		},
		{
			Name: "sasl.login.refresh.min.period.seconds", Type: Short, Default: "60", Mode: PerBroker, NoEffect: true,
			Doc: "Shortest time between two renewals of a token.",
		},
		{
			Name: "sasl.login.refresh.window.factor", Type: Double, Default: "0.8", Mode: PerBroker, NoEffect: true,
			Doc: "Part of a token's life after which it is renewed.",
		},
		{
			Name: "sasl.login.refresh.window.jitter", Type: Double, Default: "0.05", Mode: PerBroker, NoEffect: true,
			Doc: "Random part added to the renewal time of a token.",
		},
		{
			Name: "sasl.login.retry.backoff.max.ms", Type: Long, Default: "10000", NoEffect: true,
			Doc: "Longest pause between logins at the identity provider.",
		},
		{
			Name: "sasl.login.retry.backoff.ms", Type: Long, Default: "100", NoEffect: true,
			Doc: "First pause between logins at the identity provider.",
		},
		{
			Name: "sasl.mechanism.controller.protocol", Type: String, Default: "GSSAPI", NoEffect: true,
			Doc: "SASL mechanism used with controllers.",
		},
		{
			Name: "sasl.mechanism.inter.broker.protocol", Type: String, Default: "GSSAPI", Mode: PerBroker, NoEffect: true,
			Doc: "SASL mechanism used between brokers.",
		},
		{
			Name: "sasl.oauthbearer.allow.unverified.audience", Type: Boolean, Default: "false", NoEffect: true,
			Doc: "Whether tokens are taken whose audience isn't checked.",
		},
		{
			Name: "sasl.oauthbearer.allow.unverified.issuer", Type: Boolean, Default: "false", NoEffect: true,
			Doc: "Whether tokens are taken whose issuer isn't checked.",
		},
		{
			Name: "sasl.oauthbearer.assertion.algorithm", Type: String, Default: "RS256", Valid: oneOfFold{"ES256", "RS256"}, NoEffect: true,
			Doc: "Algorithm that signs OAuth assertions.",
		},
		{
			Name: "sasl.oauthbearer.assertion.claim.aud", Type: String, Null: true, NoEffect: true,
			Doc: "Audience in OAuth assertions.",
		},
		{
			Name: "sasl.oauthbearer.assertion.claim.exp.seconds", Type: Int, Default: "300", Valid: between{0, 86400}, NoEffect: true,
			Doc: "Life of OAuth assertions.",
		},
		{
			Name: "sasl.oauthbearer.assertion.claim.iss", Type: String, Null: true, NoEffect: true,
			Doc: "Issuer in OAuth assertions.",
		},
		{
			Name: "sasl.oauthbearer.assertion.claim.jti.include", Type: Boolean, Default: "false", NoEffect: true,
			Doc: "Whether OAuth assertions have an id.",
		},
		{
			Name: "sasl.oauthbearer.assertion.claim.nbf.seconds", Type: Int, Default: "60", Valid: between{0, 3600}, NoEffect: true,
			Doc: "Time before now from which OAuth assertions are valid.",
		},
		{
			Name: "sasl.oauthbearer.assertion.claim.sub", Type: String, Null: true, NoEffect: true,
			Doc: "Subject in OAuth assertions.",
		},
		{
			Name: "sasl.oauthbearer.assertion.file", Type: String, Null: true, NoEffect: true,
			Doc: "File with a ready OAuth assertion.",
		},
		{
			Name: "sasl.oauthbearer.assertion.private.key.file", Type: String, Null: true, NoEffect: true,
			Doc: "File with the key that signs OAuth assertions.",
		},
		{
			Name: "sasl.oauthbearer.assertion.private.key.passphrase", Type: Password, Null: true, NoEffect: true,
			Doc: "Passphrase of that key.",
		},
		{
			Name: "sasl.oauthbearer.assertion.template.file", Type: String, Null: true, NoEffect: true,
			Doc: "File with the header and claims of OAuth assertions.",
		},
		{
			Name: "sasl.oauthbearer.client.credentials.client.id", Type: String, Null: true, NoEffect: true,
			Doc: "Client id for OAuth's client credentials grant.",
		},
		{
			Name: "sasl.oauthbearer.client.credentials.client.secret", Type: Password, Null: true, NoEffect: true,
			Doc: "Client secret for OAuth's client credentials grant.",
		},
		{
			Name: "sasl.oauthbearer.clock.skew.seconds", Type: Int, Default: "30", NoEffect: true,
			Doc: "Difference between clocks that is tolerated in tokens.",
		},
		{Name: "sasl.oauthbearer.expected.audience", Type: List, NoEffect: true, Doc: "Audiences of which a token must have one."},
		{
			Name: "sasl.oauthbearer.expected.issuer", Type: String, Null: true, NoEffect: true,
			Doc: "Issuer that a token must have.",
		},
		{
			Name: "sasl.oauthbearer.jwks.endpoint.refresh.ms", Type: Long, Default: "3600000", NoEffect: true,
			Doc: "Time between fetches of the identity provider's keys.",
		},
		{
			Name: "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms", Type: Long, Default: "10000", NoEffect: true,
			Doc: "Longest pause between attempts to fetch those keys.",
		},
		{
			Name: "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms", Type: Long, Default: "100", NoEffect: true,
			Doc: "First pause between attempts to fetch those keys.",
		},
		{
			Name: "sasl.oauthbearer.jwks.endpoint.url", Type: String, Null: true, NoEffect: true,
			Doc: "Where the identity provider's keys are.",
		},
		{
			Name: "sasl.oauthbearer.jwt.retriever.class", Type: Class, Default: "org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever", NoEffect: true,
			Doc: "Java class that gets tokens.",
		},
		{
			Name: "sasl.oauthbearer.jwt.validator.class", Type: Class, Default: "org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator", NoEffect: true,
			Doc: "Java class that checks tokens.",
		},
		{Name: "sasl.oauthbearer.scope", Type: String, Null: true, NoEffect: true, Doc: "Scope that OAuth tokens are asked for."},
		{
			Name: "sasl.oauthbearer.scope.claim.name", Type: String, Default: "scope", NoEffect: true,
			Doc: "Claim of a token that holds its scope.",
		},
		{
			Name: "sasl.oauthbearer.sub.claim.name", Type: String, Default: "sub", NoEffect: true,
			Doc: "Claim of a token that holds its subject.",
		},
		{
			Name: "sasl.oauthbearer.token.endpoint.url", Type: String, Null: true, NoEffect: true,
			Doc: "Where OAuth tokens are got.",
		},
		{
			Name: "sasl.server.callback.handler.class", Type: Class, Null: true, NoEffect: true,
			Doc: "Java class that answers SASL callbacks of the broker.",
		},
		{
			Name: "sasl.server.max.receive.size", Type: Int, Default: "524288", NoEffect: true,
			Doc: "Most bytes of a SASL message before authentication.",
		},
		{
			Name: "security.inter.broker.protocol", Type: String, Default: "PLAINTEXT", Valid: oneOf{"PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"}, NoEffect: true,
			Doc: "Security protocol between brokers.",
		},
		{Name: "security.providers", Type: String, Null: true, NoEffect: true, Doc: "Java security providers."},
		{
			Name: "ssl.allow.dn.changes", Type: Boolean, Default: "false", NoEffect: true,
			Doc: "Whether a new certificate may have another subject.",
		},
		{
			Name: "ssl.allow.san.changes", Type: Boolean, Default: "false", NoEffect: true,
			Doc: "Whether a new certificate may have other alternative names.",
		},
		{
			Name: "ssl.cipher.suites", Type: List, Mode: PerBroker, NoEffect: true,
			Doc: "TLS cipher suites; empty takes all that are sound.",
		},
		{
			Name: "ssl.client.auth", Type: String, Default: "none", Valid: oneOf{"required", "requested", "none"}, Mode: PerBroker, NoEffect: true,
			Doc: "Whether clients must, may or needn't show a certificate.",
		},
		{
			Name: "ssl.enabled.protocols", Type: List, Default: "TLSv1.2,TLSv1.3", Mode: PerBroker, NoEffect: true,
			Doc: "TLS versions.",
		},
		{
			Name: "ssl.endpoint.identification.algorithm", Type: String, Default: "https", Mode: PerBroker, NoEffect: true,
			Doc: "How a server's name is checked against its certificate.",
		},
		{
			Name: "ssl.engine.factory.class", Type: Class, Null: true, Mode: PerBroker, NoEffect: true,
			Doc: "Java class that makes TLS engines.",
		},
		{
			Name: "ssl.key.password", Type: Password, Null: true, Mode: PerBroker, NoEffect: true,
			Doc: "Password of the private key.",
		},
		{
			Name: "ssl.keymanager.algorithm", Type: String, Default: "SunX509", Mode: PerBroker, NoEffect: true,
			Doc: "Algorithm of the Java key manager.",
		},
		{
			Name: "ssl.keystore.certificate.chain", Type: Password, Null: true, Mode: PerBroker, NoEffect: true,
			Doc: "Certificates in PEM.",
		},
		{Name: "ssl.keystore.key", Type: Password, Null: true, Mode: PerBroker, NoEffect: true, Doc: "Private key in PEM."},
		{
			Name: "ssl.keystore.location", Type: String, Null: true, Mode: PerBroker, NoEffect: true,
			Doc: "File with the key and its certificates.",
		},
		{
			Name: "ssl.keystore.password", Type: Password, Null: true, Mode: PerBroker, NoEffect: true,
			Doc: "Password of that file.",
		},
		{Name: "ssl.keystore.type", Type: String, Default: "JKS", Mode: PerBroker, NoEffect: true, Doc: "Format of that file."},
		{
			Name: "ssl.principal.mapping.rules", Type: String, Default: "DEFAULT", NoEffect: true,
			Doc: "Rules that turn a certificate's subject into a principal.",
		},
		{
			Name: "ssl.protocol", Type: String, Default: "TLSv1.3", Mode: PerBroker, NoEffect: true,
			Doc: "TLS version that contexts are made with.",
		},
		{Name: "ssl.provider", Type: String, Null: true, Mode: PerBroker, NoEffect: true, Doc: "Java security provider for TLS."},
		{
			Name: "ssl.secure.random.implementation", Type: String, Null: true, Mode: PerBroker, NoEffect: true,
			Doc: "Java source of randomness for TLS.",
		},
		{
			Name: "ssl.trustmanager.algorithm", Type: String, Default: "PKIX", Mode: PerBroker, NoEffect: true,
			Doc: "Algorithm of the Java trust manager.",
		},
		{
			Name: "ssl.truststore.certificates", Type: Password, Null: true, Mode: PerBroker, NoEffect: true,
			Doc: "Trusted certificates in PEM.",
		},
		{
			Name: "ssl.truststore.location", Type: String, Null: true, Mode: PerBroker, NoEffect: true,
			Doc: "File with the trusted certificates.",
		},
		{
			Name: "ssl.truststore.password", Type: Password, Null: true, Mode: PerBroker, NoEffect: true,
			Doc: "Password of that file.",
		},
		{Name: "ssl.truststore.type", Type: String, Default: "JKS", Mode: PerBroker, NoEffect: true, Doc: "Format of that file."},
	}
}
