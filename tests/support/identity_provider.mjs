// An OpenID provider on this machine for tests: certified software (oidc-provider), one client, and people who log in by name.
import {createRequire} from "node:module";

const require = createRequire(`${process.env.NODE_PATH}/`);
const {default: Provider} = await import(require.resolve("oidc-provider"));
const [redirect, port] = process.argv.slice(2);
const issuer = `http://127.0.0.1:${port}`;
const GROUPS = {ada: ["researchers"], ann: ["auditors"], sam: []};

const provider = new Provider(issuer, {
  clients: [{client_id: "dpsql", client_secret: "a secret of tests, which is long enough", redirect_uris: [redirect]}],
  claims: {openid: ["sub"], profile: ["groups", "preferred_username"]},
  conformIdTokenClaims: false, // the claims of a scope are in the token itself
  findAccount: (ctx, id) => ({
    accountId: id,
    claims: () => ({sub: id, preferred_username: id, groups: GROUPS[id] ?? []}),
  }),
  pkce: {required: () => true},
  cookies: {keys: ["of tests"]},
});
provider.listen(Number(port), "127.0.0.1", () => console.log("ready"));
