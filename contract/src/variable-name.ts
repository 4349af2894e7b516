/**
 * Names that no secret gets as a variable unless somebody allows it: whoever may write a secret must not thereby run code on
 * every machine that reads it, nor choose where that machine sends its credentials of Coffer. The SDK has a copy of this
 * file; `run`, `inject`, the exports for shells and pipelines, and the dashboard ask it.
 */

/**
 * The programs, and the variables by which each of them finds or runs code; `*` stands for any end of a name. The first list
 * of a program is that of the first version of `coffer run`, which refused these names.
 */
const obeyed: readonly (readonly [program: string, first: string, later?: string])[] = [
  [
    'a shell',
    'PATH IFS ENV CDPATH SHELLOPTS BASHOPTS BASH_ENV PS4 PROMPT_COMMAND ZDOTDIR SHELL BASH_FUNC_*',
    'HOME PS0 PS1 PS2 PS3 PROMPT RPROMPT FPATH MODULE_PATH NULLCMD READNULLCMD HISTFILE INPUTRC MAILPATH FCEDIT ' +
      'BASH_LOADABLES_PATH FISH_FUNCTION_PATH FISH_COMPLETE_PATH FISH_USER_PATHS',
  ],
  // Numbers of bash and mksh. Whoever assigns one to them has it calculated, which runs the command in `x[$(command)]`.
  [
    'a shell',
    '',
    'RANDOM SRANDOM SECONDS OPTIND HISTCMD LINENO BASHPID PPID PGRP PIPESTATUS USER_ID KSHUID KSHEUID KSHGID KSHEGID ' +
      'COLUMNS LINES TMOUT',
  ],
  // Its credentials go to the address that these name.
  ['Coffer', '', 'COFFER_URL COFFER_ALLOW_HTTP'],
  ['every program that keeps its settings there', '', 'XDG_* TMPDIR TMP TEMP'],
  ['D-Bus', '', 'DBUS_SESSION_BUS_ADDRESS DBUS_SYSTEM_BUS_ADDRESS DBUS_STARTER_ADDRESS'],
  ['the loader of programs', 'LD_* DYLD_* GCONV_PATH GLIBC_TUNABLES LOCPATH MALLOC_CONF', 'LIBPATH SHLIB_PATH'],
  [
    'Windows',
    'COMSPEC PATHEXT',
    'SYSTEMROOT WINDIR APPDATA LOCALAPPDATA PROGRAMDATA USERPROFILE HOMEDRIVE HOMEPATH PSMODULEPATH',
  ],
  [
    'Node',
    'NODE_OPTIONS NODE_PATH NODE_REPL_EXTERNAL_MODULE NODE_EXTRA_CA_CERTS ELECTRON_RUN_AS_NODE',
    'NODE_COMPILE_CACHE TS_NODE_* NODE_GYP_FORCE_PYTHON NAPI_RS_NATIVE_LIBRARY_PATH ESBUILD_BINARY_PATH',
  ],
  ['npm', 'NPM_CONFIG_NODE_OPTIONS NPM_CONFIG_SCRIPT_SHELL', 'NPM_CONFIG_* NPM_EXECPATH NPM_NODE_EXECPATH'],
  ['pnpm', '', 'PNPM_CONFIG_* PNPM_HOME'],
  ['Yarn', '', 'YARN_RC_FILENAME YARN_YARN_PATH YARN_PLUGINS YARN_NPM_REGISTRY_SERVER YARN_SCRIPT_SHELL'],
  ['Corepack', '', 'COREPACK_*'],
  ['Bun', 'BUN_OPTIONS', 'BUN_INSTALL BUN_INSPECT_PRELOAD'],
  ['Prisma', '', 'PRISMA_QUERY_ENGINE_LIBRARY PRISMA_QUERY_ENGINE_BINARY PRISMA_SCHEMA_ENGINE_BINARY'],
  ['nvm', '', 'NVM_DIR'],
  ['Volta', '', 'VOLTA_HOME'],
  ['asdf', '', 'ASDF_DIR ASDF_DATA_DIR ASDF_CONFIG_FILE'],
  [
    'Python',
    'PYTHONSTARTUP PYTHONPATH PYTHONHOME PYTHONBREAKPOINT PYTHONUSERBASE PYTHONWARNINGS',
    'PYTHONINSPECT PYTHONEXECUTABLE PYTHONPLATLIBDIR PYTHONPYCACHEPREFIX',
  ],
  ['pip', '', 'PIP_*'],
  ['uv', '', 'UV_PYTHON UV_CONFIG_FILE UV_INDEX UV_INDEX_URL UV_DEFAULT_INDEX UV_EXTRA_INDEX_URL UV_FIND_LINKS'],
  ['pytest', '', 'PYTEST_ADDOPTS PYTEST_PLUGINS'],
  ['Jupyter', '', 'IPYTHONDIR JUPYTER_PATH JUPYTER_CONFIG_DIR JUPYTER_CONFIG_PATH'],
  ['gunicorn', '', 'GUNICORN_CMD_ARGS'],
  ['uWSGI', '', 'UWSGI_EXEC_* UWSGI_HOOK_* UWSGI_INI UWSGI_YAML UWSGI_JSON UWSGI_XML UWSGI_PLUGIN UWSGI_PLUGINS'],
  ['pyenv', '', 'PYENV_ROOT'],
  [
    'Ansible',
    '',
    'ANSIBLE_CONFIG ANSIBLE_LIBRARY ANSIBLE_COLLECTIONS_PATH ANSIBLE_ROLES_PATH ANSIBLE_VAULT_PASSWORD_FILE ' +
      'ANSIBLE_SSH_ARGS ANSIBLE_SSH_COMMON_ARGS ANSIBLE_SSH_EXTRA_ARGS ANSIBLE_SSH_EXECUTABLE',
  ],
  ['Perl', 'PERL5OPT PERL5LIB PERLLIB PERL5DB PERL5SHELL', 'PERL_MM_OPT PERL_MB_OPT PERL_LOCAL_LIB_ROOT'],
  ['Ruby', 'RUBYOPT RUBYLIB', 'RUBYSHELL RUBYPATH IRBRC PRYRC GEM_HOME GEM_PATH GEMRC RUBYGEMS_GEMDEPS'],
  ['Rake', '', 'RAKEOPT'],
  ['RSpec', '', 'SPEC_OPTS'],
  [
    'Bundler',
    '',
    'BUNDLE_GEMFILE BUNDLE_PATH BUNDLE_APP_CONFIG BUNDLE_USER_CONFIG BUNDLE_USER_HOME BUNDLE_USER_PLUGIN',
  ],
  ['rbenv', '', 'RBENV_ROOT'],
  ['Lua', 'LUA_INIT LUA_PATH LUA_CPATH', 'LUA_INIT_* LUA_PATH_* LUA_CPATH_*'],
  ['PHP', 'PHPRC PHP_INI_SCAN_DIR', 'XDEBUG_CONFIG'],
  ['Composer', '', 'COMPOSER COMPOSER_HOME COMPOSER_VENDOR_DIR'],
  [
    'Java',
    'JAVA_TOOL_OPTIONS JDK_JAVA_OPTIONS _JAVA_OPTIONS CLASSPATH',
    'IBM_JAVA_OPTIONS OPENJ9_JAVA_OPTIONS JAVA_HOME JRE_HOME JAVACMD JAVA_OPTS JAVA_OPTS_APPEND JAVA_OPTIONS ' +
      'JAVA_ARGS JVM_OPTS JVM_ARGS',
  ],
  ['Maven', '', 'MAVEN_OPTS MAVEN_ARGS MAVEN_CMD_LINE_ARGS MAVEN_HOME M2_HOME MVNW_REPOURL'],
  ['Gradle', '', 'GRADLE_OPTS GRADLE_HOME GRADLE_USER_HOME'],
  ['Ant', '', 'ANT_OPTS ANT_ARGS ANT_HOME'],
  ['sbt', '', 'SBT_OPTS'],
  ['Leiningen', '', 'LEIN_JVM_OPTS LEIN_JAVA_CMD LEIN_HOME'],
  ['Tomcat', '', 'CATALINA_OPTS CATALINA_HOME CATALINA_BASE'],
  [
    'Kafka',
    '',
    'KAFKA_OPTS KAFKA_HEAP_OPTS KAFKA_JVM_PERFORMANCE_OPTS KAFKA_JMX_OPTS KAFKA_GC_LOG_OPTS KAFKA_LOG4J_OPTS',
  ],
  ['ZooKeeper', '', 'JVMFLAGS SERVER_JVMFLAGS CLIENT_JVMFLAGS'],
  ['Hadoop', '', 'HADOOP_OPTS HADOOP_CLASSPATH'],
  ['Spark', '', 'SPARK_SUBMIT_OPTS SPARK_DAEMON_JAVA_OPTS PYSPARK_PYTHON PYSPARK_DRIVER_PYTHON'],
  ['Elasticsearch', '', 'ES_JAVA_OPTS ES_JAVA_HOME ES_PATH_CONF'],
  ['Logstash', '', 'LS_JAVA_OPTS LS_JAVA_HOME'],
  [
    '.NET',
    'DOTNET_STARTUP_HOOKS CORECLR_PROFILER CORECLR_PROFILER_PATH CORECLR_ENABLE_PROFILING COR_PROFILER COR_PROFILER_PATH',
    'DOTNET_ROOT DOTNET_ADDITIONAL_DEPS DOTNET_SHARED_STORE DOTNET_GCNAME COMPLUS_GCNAME CORECLR_PROFILER_PATH_* ' +
      'COR_PROFILER_PATH_* COR_ENABLE_PROFILING MSBUILDSDKSPATH MSBUILD_EXE_PATH NUGET_PLUGIN_PATHS ' +
      'NUGET_NETCORE_PLUGIN_PATHS NUGET_NETFX_PLUGIN_PATHS',
  ],
  [
    'Rust',
    'RUSTC_WRAPPER',
    'RUSTC RUSTDOC RUSTC_WORKSPACE_WRAPPER RUSTFLAGS RUSTDOCFLAGS RUSTUP_HOME RUSTUP_TOOLCHAIN CARGO_HOME ' +
      'RUSTUP_DIST_SERVER RUSTUP_UPDATE_ROOT CARGO_ENCODED_RUSTFLAGS CARGO_ENCODED_RUSTDOCFLAGS CARGO_BUILD_* ' +
      'CARGO_TARGET_* CARGO_REGISTRY_CREDENTIAL_PROVIDER CARGO_REGISTRY_GLOBAL_CREDENTIAL_PROVIDERS',
  ],
  [
    'Go',
    'GOFLAGS',
    'GOROOT GOPATH GOENV GOPROXY GOTOOLCHAIN GOTOOLDIR GOCACHE GOCACHEPROG GOAUTH GOMODCACHE GOWORK CGO_CFLAGS ' +
      'CGO_CPPFLAGS CGO_CXXFLAGS CGO_LDFLAGS',
  ],
  [
    'make',
    'MAKEFLAGS',
    'MAKEFILES GNUMAKEFLAGS MFLAGS CC CXX CPP AR LD CFLAGS CXXFLAGS CPPFLAGS LDFLAGS LDLIBS LOADLIBES ARFLAGS TARGET_ARCH',
  ],
  ['a configure script', '', 'CONFIG_SITE CONFIG_SHELL'],
  ['a build that looks for libraries', '', 'PKG_CONFIG'],
  ['gcc', '', 'GCC_EXEC_PREFIX COMPILER_PATH'],
  ['CMake', '', 'CMAKE_TOOLCHAIN_FILE CMAKE_PREFIX_PATH CMAKE_C_COMPILER_LAUNCHER CMAKE_CXX_COMPILER_LAUNCHER'],
  ['R', 'R_PROFILE R_PROFILE_USER', 'R_ENVIRON R_ENVIRON_USER R_HOME R_LIBS R_LIBS_USER R_LIBS_SITE'],
  ['Julia', '', 'JULIA_LOAD_PATH JULIA_DEPOT_PATH JULIA_PROJECT'],
  ['Erlang', '', 'ERL_FLAGS ERL_AFLAGS ERL_ZFLAGS ERL_OTP* ERL_LIBS ELIXIR_ERL_OPTIONS'],
  ['Elixir', '', 'MIX_HOME MIX_EXS MIX_ARCHIVES MIX_REBAR3 RELEASE_VM_ARGS RELEASE_REMOTE_VM_ARGS RELEASE_SYS_CONFIG'],
  ['Tcl', '', 'TCLLIBPATH TCL_LIBRARY'],
  [
    'git',
    'GIT_SSH GIT_SSH_COMMAND GIT_ASKPASS GIT_PAGER GIT_EDITOR GIT_SEQUENCE_EDITOR GIT_EXTERNAL_DIFF ' +
      'GIT_PROXY_COMMAND GIT_EXEC_PATH GIT_TEMPLATE_DIR GIT_DIR GIT_CONFIG GIT_CONFIG_GLOBAL GIT_CONFIG_SYSTEM ' +
      'GIT_CONFIG_COUNT GIT_CONFIG_PARAMETERS GIT_CONFIG_KEY_* GIT_CONFIG_VALUE_*',
    'GIT_WORK_TREE GIT_COMMON_DIR GIT_INDEX_FILE GIT_OBJECT_DIRECTORY GIT_ALTERNATE_OBJECT_DIRECTORIES',
  ],
  ['ssh', 'SSH_ASKPASS', 'SSH_SK_PROVIDER SSH_SK_HELPER SSH_PKCS11_HELPER'],
  ['sudo', '', 'SUDO_ASKPASS SUDO_EDITOR'],
  ['Mercurial', '', 'HG HGRCPATH HGEDITOR HGMERGE'],
  ['Subversion', '', 'SVN_SSH SVN_EDITOR'],
  ['rsync', '', 'RSYNC_RSH RSYNC_CONNECT_PROG'],
  ['every program that opens a pager, an editor or a browser', 'PAGER MANPAGER EDITOR VISUAL BROWSER'],
  [
    'less',
    'LESSOPEN LESSCLOSE',
    'LESS LESSKEY LESSKEY_SYSTEM LESSKEY_CONTENT LESSKEYIN LESSKEYIN_SYSTEM LESSECHO LESSEDIT LESSHISTFILE',
  ],
  ['vi', '', 'EXINIT VIMINIT GVIMINIT VIM VIMRUNTIME NVIM_APPNAME'],
  ['Emacs', '', 'EMACSLOADPATH EMACSPATH ALTERNATE_EDITOR'],
  ['psql', '', 'PSQLRC PSQL_PAGER PSQL_EDITOR'],
  ['the AWS command line', '', 'AWS_PAGER'],
  // The programs for AWS run the `credential_process` of their files, and the file may be /proc/self/environ.
  ['every program for AWS', '', 'AWS_CONFIG_FILE AWS_SHARED_CREDENTIALS_FILE'],
  ['every program for Google Cloud', '', 'GOOGLE_EXTERNAL_ACCOUNT_ALLOW_EXECUTABLES'],
  ['the Google Cloud command line', '', 'CLOUDSDK_PYTHON CLOUDSDK_PYTHON_* CLOUDSDK_GSUTIL_PYTHON CLOUDSDK_BQ_PYTHON'],
  ['the GitHub command line', '', 'GH_PAGER GH_EDITOR GH_BROWSER'],
  ['kubectl', '', 'KUBE_EDITOR KUBECTL_EXTERNAL_DIFF'],
  ['systemd', '', 'SYSTEMD_PAGER SYSTEMD_EDITOR SYSTEMD_LESS'],
  ['bat', '', 'BAT_PAGER BAT_OPTS BAT_CONFIG_PATH BAT_CONFIG_DIR'],
  ['delta', '', 'DELTA_PAGER'],
  ['ripgrep', '', 'RIPGREP_CONFIG_PATH'],
  ['fzf', '', 'FZF_DEFAULT_COMMAND FZF_DEFAULT_OPTS FZF_DEFAULT_OPTS_FILE'],
  ['curl', '', 'CURL_HOME'],
  ['Wget', '', 'WGETRC'],
  ['Terraform', '', 'TF_CLI_ARGS TF_CLI_ARGS_* TF_CLI_CONFIG_FILE TF_DATA_DIR TF_PLUGIN_CACHE_DIR'],
  ['Terragrunt', '', 'TG_TF_PATH TERRAGRUNT_TFPATH TG_AUTH_PROVIDER_CMD TERRAGRUNT_AUTH_PROVIDER_CMD'],
  ['Helm', '', 'HELM_PLUGINS'],
  ['Nix', '', 'NIX_CONFIG NIX_CONF_DIR NIX_USER_CONF_FILES NIX_PATH NIX_SSHOPTS NIX_BUILD_HOOK'],
  ['SOPS', '', 'SOPS_EDITOR SOPS_GPG_EXEC SOPS_AGE_KEY_CMD'],
  ['restic', '', 'RESTIC_PASSWORD_COMMAND'],
  ['Borg', '', 'BORG_PASSCOMMAND BORG_RSH'],
  ['rclone', '', 'RCLONE_PASSWORD_COMMAND'],
  ['OpenSSL', 'OPENSSL_CONF OPENSSL_MODULES OPENSSL_ENGINES'],
  ['Kerberos', '', 'KRB5_CONFIG'],
  ['SASL', '', 'SASL_PATH'],
  ['ODBC', '', 'ODBCSYSINI ODBCINI ODBCINSTINI'],
  ['MySQL', '', 'LIBMYSQL_PLUGINS LIBMYSQL_PLUGIN_DIR'],
  ['GTK', '', 'GTK_MODULES GTK_PATH GTK_EXE_PREFIX GIO_MODULE_DIR GIO_EXTRA_MODULES GDK_PIXBUF_MODULE_FILE'],
  ['Qt', '', 'QT_PLUGIN_PATH QT_QPA_PLATFORM_PLUGIN_PATH QML_IMPORT_PATH QML2_IMPORT_PATH'],
]

type Obeyed = { readonly program: string; readonly isFirst: boolean }
let names: Map<string, Obeyed> | undefined
let beginnings: [string, Obeyed][] = []

/** Built with the first question: a command without secrets needs no table. */
function readTable(): Map<string, Obeyed> {
  const table = new Map<string, Obeyed>()
  beginnings = []
  for (const [program, first, later = ''] of obeyed) {
    for (const [list, isFirst] of [
      [later, false],
      [first, true],
    ] as const) {
      for (const pattern of list.split(' ')) {
        if (pattern.endsWith('*')) beginnings.push([pattern.slice(0, -1), { program, isFirst }])
        else if (pattern !== '') table.set(pattern, { program, isFirst })
      }
    }
  }
  return table
}

/** Case does not matter: it does not to Windows and npm, and zsh's `path` is PATH. */
function findObeyed(name: string): Obeyed | undefined {
  names ??= readTable()
  const upper = name.toUpperCase()
  return names.get(upper) ?? beginnings.find(([beginning]) => upper.startsWith(beginning))?.[1]
}

/** The name of a variable in every shell. */
export const isVariableName = (name: string): boolean => /^[A-Za-z_][A-Za-z0-9_]*$/.test(name)

/** Why a secret of this name does not become a variable, such as `bash obeys it`. Undefined if it does. */
export function whyNoVariable(name: string): string | undefined {
  if (!isVariableName(name)) return 'not the name of a variable'
  const found = findObeyed(name)
  return found && `${found.program} obeys it`
}

/** A value with NUL fits into no variable, whatever is allowed. */
export const holdsNul = (value: string): boolean => value.includes('\0')

/** Whether `coffer run` refused the name from its first version on, in which only npm's names had any case. */
export function wasAlwaysRefused(name: string): boolean {
  if (!isVariableName(name)) return true
  const found = findObeyed(name)
  return found?.isFirst === true && (found.program === 'npm' || name === name.toUpperCase())
}

export type LeftOut = { readonly name: string; readonly why: string }

/** Such as `PATH (a shell obeys it), my-key (not the name of a variable)`. */
export const describeLeftOut = (leftOut: readonly LeftOut[]): string =>
  leftOut.map(({ name, why }) => `${name} (${why})`).join(', ')

export type Allowed = { readonly names: readonly string[]; readonly all: boolean }

/** Why this secret is left out of variables; undefined if it is not. */
export function whyLeftOut(name: string, value: string, allowed: Allowed): string | undefined {
  if (holdsNul(value)) return 'its value contains a NUL'
  return allowed.all || allowed.names.includes(name) ? undefined : whyNoVariable(name)
}
