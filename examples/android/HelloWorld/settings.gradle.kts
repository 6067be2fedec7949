pluginManagement {
    repositories {
        google()
        mavenCentral()
        gradlePluginPortal()
    }
}
dependencyResolutionManagement {
    repositoriesMode = RepositoriesMode.FAIL_ON_PROJECT_REPOS
    repositories {
        maven { url = uri("maven") } // that `penlight build --maven` wrote
        google()
        mavenCentral()
    }
}
rootProject.name = "HelloWorld"
include(":app")
